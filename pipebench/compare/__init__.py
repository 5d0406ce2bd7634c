"""Measures two commits, or two settings, against each other in live processes."""
