"""Reads without a lock that workers share. A change of the dataset: predicted, if more workers were tried in vain.

It is proposed only where the looks at the stack name a line that waits for a lock. What guards itself, as a disc or a
server that answers one request at a time, would go on to do so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pipebench.remedies.seen import WORTH, Seen, without
from pipebench.results.advice import Change, Finding, Place

PLACE = 14
HOW = (
    "Let each worker open a file or connection of its own, when it first reads, and read",
    "without this lock; or read at a position, which needs none: os.pread(fd, size, offset).",
)
_LOCK = re.compile(r"(?i:(?<![a-z])(?:[rf]?lockf?|mutex|semaphore|sem|guard)s?(?![a-z]))|Lock\b|\.acquire\(")


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    account = seen.watched.account
    found = next((one for one in account.causes if "tried_workers" in one.values), None) if account else None
    if found is None or not _LOCK.search(str(found.values.get("text", ""))):
        return None
    predicted = min(without(seen.watched, found.recoverable_s or 0.0), float(max(1, seen.workers)))
    if predicted < WORTH:
        return None
    at = Place(str(found.values["function"]), str(found.values["file"]), int(found.values["line"]))
    return Change(
        "unlocked", {}, "one open file or connection a worker", predicted=predicted,
        title="reads without the shared lock", how=HOW, at=at, of_script=True,
    )  # fmt: skip
