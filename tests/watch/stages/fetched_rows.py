"""The clock of the tests of rows, which moves only where a test moves it, and the share of rows that have a name."""

from __future__ import annotations

from clockwork import Clock, Rows

CLOCK = Clock()
UNNAMED = ("getitem", "collate")


def named(found: Rows) -> float:
    """The share of the time in rows that are more than the name of a dataset."""
    spent = found.found()
    return sum(ns for (kind, _), ns in spent.items() if kind not in UNNAMED) / sum(spent.values())
