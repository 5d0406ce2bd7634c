"""Reads without a lock that workers share. A change of the dataset: predicted, if more workers were tried in vain.

It is proposed only where the looks at the stack name a line that waits for a lock. What guards itself, as a disc or a
server that answers one request at a time, would go on to do so.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipebench.remedies.seen import WORTH, Seen, without, without_share
from pipebench.results.account import Cause
from pipebench.results.advice import Change, Finding, Place
from pipebench.watch.read.locks import waits_for_lock

PLACE = 14
HOW = (
    "Let each worker open a file or connection of its own, when it first reads, and read",
    "without this lock; or read at a position, which needs none: os.pread(fd, size, offset).",
)


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    account = seen.watched.account
    found = next((one for one in account.causes if "tried_workers" in one.values), None) if account else None
    if found is None or found.code == "storage" or not waits_for_lock(str(found.values.get("text", ""))):
        return None
    predicted = min(without(seen.watched, found.recoverable_s or 0.0), _at_most(seen, found))
    if predicted < WORTH:
        return None
    at = Place(str(found.values["function"]), str(found.values["file"]), int(found.values["line"]))
    return Change(
        "unlocked", {}, "one open file or connection a worker", predicted=predicted,
        title="reads without the shared lock", how=HOW, at=at, of_script=True,
    )  # fmt: skip


def _at_most(seen: Seen, found: Cause) -> float:
    """How many times as many samples the workers make, at most, if none of their time is at this line."""
    values = found.values
    at_line, used = float(values.get("at_line", 0.0)), float(values.get("cores_used", 0.0))
    free = seen.cores - float(values.get("script_cores", 0.0))
    by_cores = max(1.0, free / used) if used > 0 else float(seen.workers)
    return min(float(max(1, seen.workers)), by_cores, without_share(at_line))
