"""Reads without a lock that workers share, or less work under it. A change of the dataset: predicted.

It is proposed only where the looks at the stack name a line that waits for a lock, and say that the workers wait for
one another there, or where more workers were tried in vain. What guards itself, as a disc or a server that answers one
request at a time, would go on to do so.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipebench.remedies.seen import WORTH, Seen, without, without_share
from pipebench.results.account import Cause
from pipebench.results.advice import Change, Finding, Place
from pipebench.watch.read.locks import waits_for_lock

PLACE = 14
HOW = (
    "Hold the lock only for what it guards. A file or connection that each worker opens for",
    "itself, when it first reads, needs none; nor does reading at a position: os.pread(fd, size, offset).",
)


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    account = seen.watched.account
    causes = account.causes if account else ()
    found = next((one for one in causes if "tried_workers" in one.values or one.code == "shared-lock"), None)
    if found is None or found.code == "storage" or not waits_for_lock(str(found.values.get("text", ""))):
        return None
    predicted = min(without(seen.watched, found.recoverable_s or 0.0), _at_most(seen, found))
    if predicted < WORTH:
        return None
    at = Place(str(found.values["function"]), str(found.values["file"]), int(found.values["line"]))
    return Change(
        "unlocked", {}, "one open file or connection a worker", predicted=predicted,
        title="less work under the shared lock", how=HOW, at=at, of_script=True,
    )  # fmt: skip


def _at_most(seen: Seen, found: Cause) -> float:
    """How many times as many samples the workers make, at most, if none of their time is at this line."""
    values = found.values
    at_line, used = float(values.get("at_line", 0.0)), float(values.get("cores_used", 0.0))
    free = seen.cores - float(values.get("script_cores", 0.0))
    by_cores = max(1.0, free / used) if used > 0 else float(seen.workers)
    return min(float(max(1, seen.workers)), by_cores, without_share(at_line))
