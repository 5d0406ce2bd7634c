"""Finds the line at which workers wait for a lock, by the lines of a large row. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from pipebench.results.drilled import DrilledLine, DrilledRow

_LEAST = 0.1  # of the workers' time, for certain
_NAME = r"(?i:(?<![a-z])r?(?:lock|mutex|semaphore)s?(?![a-z]))|(?<!File)Lock\b"
# A line that does nothing but to wait for it: what a lock guards stands on other lines.
_WAITS = re.compile(rf"^with\s[^#]*(?:{_NAME})[^#]*:$|(?:{_NAME})\w*(?:\(\))?\.acquire\(|\b(?:flock|lockf)\(")
_TEXTS = re.compile(r"""'[^']*'|"[^"]*"|#.*""")
_GIVES_BACK = ("__exit__", "release")
# A call that waits for one, whatever else the line does: `multiprocessing`, its managers, and the package filelock.
_CALLS = re.compile(r"\b(?:SemLock\.(?:__enter__|acquire)|AcquirerProxy\.\w+|\w*FileLock\.(?:__enter__|acquire))$")


class AtLock(NamedTuple):
    """A line that waits for a lock, and the share of the workers' time there (0 to 1)."""

    line: DrilledLine
    share: float


def waits_for_lock(text: str) -> bool:
    """Whether a line of code does nothing but to wait for a lock."""
    return bool(_WAITS.search(_TEXTS.sub("''", text).strip()))


def at_lock(rows: Iterable[DrilledRow], loader: int) -> AtLock | None:
    """Where the workers of a loader wait for a lock most, if they do for long."""
    found = [
        AtLock(line, row.worker_share * line.share)
        for row in rows
        for line in row.lines
        if row.loader == loader and row.worker_share * line.low >= _LEAST
        if _CALLS.search(line.calls) or (waits_for_lock(line.text) and not line.calls.endswith(_GIVES_BACK))
    ]
    return max(found, key=lambda one: one.share, default=None)
