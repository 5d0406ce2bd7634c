"""Two saved reports of one kind, held against each other: what a figure was, what it is, and whether that is a change.

Nothing is measured here. Pure functions from two reports to one result.
"""
