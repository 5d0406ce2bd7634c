"""Renders what the watched part says beside the advice: the line that takes most of loading. Pure."""

from __future__ import annotations

import os

from pipebench.results.advice import Advice
from pipebench.results.drilled import DrilledLine
from pipebench.results.watched import WatchResult
from pipebench.units import percent, printable

_MOST_OF_LOADING = 0.5  # of the time in which samples are made
_WAITS = 1.1  # the speed-up without waits from which loading matters


def slow_line(advice: Advice, watched: WatchResult | None) -> tuple[float, str] | None:
    """The line of the user's own code that takes most of the time in which samples are made, and its share.

    None: the loop hardly waits, or no line surely takes so much.
    """
    if watched is None or (advice.most is not None and advice.most < _WAITS):
        return None
    lines = [
        (row.worker_share * one.share, one)
        for row in watched.drilled
        if row.loader == advice.loader
        for one in row.lines
        if one.file and one.line and row.worker_share * one.low >= _MOST_OF_LOADING
    ]
    if not lines:
        return None
    share, found = max(lines, key=lambda one: one[0])
    return share, _place(found)


def _place(one: DrilledLine) -> str:
    calls = f" → {printable(one.calls)}" if one.calls else ""
    return f"{printable(os.path.basename(one.file))}:{one.line}{calls}"


def of_line(found: tuple[float, str] | None) -> str:
    """The sentence of the verdict on that line ("": there is none)."""
    return f" {percent(found[0])} of loading is {found[1]}: make that cheaper." if found else ""
