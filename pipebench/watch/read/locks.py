"""Finds the line at which workers wait for a lock, by the lines of a large row, and what that costs. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from pipebench.results.account import Cause
from pipebench.results.drilled import DrilledLine, DrilledRow
from pipebench.results.watched import LoaderResult
from pipebench.watch.read.of_causes import Seen, on_cores_s

_LEAST = 0.1  # of the workers' time, for certain
_NAME = r"(?i:(?<![a-z])r?(?:lock|mutex|semaphore)s?(?![a-z]))|(?<!File)Lock\b"
# A line that waits for it. Where that is all that it does, what the lock guards stands on other lines.
_WAITS = re.compile(rf"^with\s[^#]*(?:{_NAME})[^#]*:$|(?:{_NAME})\w*(?:\(\))?\.acquire\(|\b(?:flock|lockf)\(")
_TEXTS = re.compile(r"""'[^']*'|"[^"]*"|#.*""")
_MORE = re.compile(r";|^(?:with|if|elif|else|while|for|try|finally)\b.*:\s*[^\s:]")
_GIVES_BACK = ("__exit__", "release")
# A call that waits for one, whatever else the line does: `multiprocessing`, its managers, and the package filelock.
_CALLS = re.compile(r"\b(?:SemLock\.(?:__enter__|acquire)|AcquirerProxy\.\w+|\w*FileLock\.(?:__enter__|acquire))$")


class AtLock(NamedTuple):
    """A line that waits for a lock, and the share of the workers' time there (0 to 1)."""

    line: DrilledLine
    share: float


def waits_for_lock(text: str) -> bool:
    """Whether a line of code waits for a lock."""
    return bool(_WAITS.search(_plain(text)))


def _plain(text: str) -> str:
    return _TEXTS.sub("''", text).strip()


def _waiting(line: DrilledLine) -> float:
    """The share of a line's time in which it waits for a lock: 0 if nothing shows that it does.

    A line that does other work, too, tells that only where looks saw the process wait in the kernel.
    """
    if _CALLS.search(line.calls):
        return 1.0
    if not waits_for_lock(line.text) or line.calls.endswith(_GIVES_BACK):
        return 0.0
    return (line.at_lock or 0.0) if _MORE.search(_plain(line.text)) else 1.0


def at_lock(rows: Iterable[DrilledRow], loader: int) -> AtLock | None:
    """Where the workers of a loader wait for a lock most, if they do for long."""
    found = [
        AtLock(line, row.worker_share * line.share * waiting)
        for row in rows
        for line in row.lines
        if row.loader == loader and row.worker_share * line.low * (waiting := _waiting(line)) >= _LEAST
    ]
    return max(found, key=lambda one: one.share, default=None)


def shared_lock(seen: Seen, one: LoaderResult, cause: Cause) -> Cause | None:
    """Workers that wait for one another at a lock. Without it, a batch takes as much less time to make.

    Workers that compute then share the cores that the script leaves them.
    """
    lock = at_lock(seen.result.drilled, one.loader)
    if lock is None or one.workers < 2:
        return None
    whole_s = sum(row.s for row in seen.rows(loader=one.loader))
    spent = min(lock.share * whole_s, on_cores_s(seen, one, float(cause.values["cores_used"]), whole_s))
    saved = None if cause.recoverable_s is None else min(cause.recoverable_s, spent)
    values = {
        **cause.values, "file": lock.line.file, "line": lock.line.line, "function": lock.line.function,
        "text": lock.line.text, "at_line": lock.share,
    }  # fmt: skip
    return replace(cause, code="shared-lock", recoverable_s=saved, values=values)
