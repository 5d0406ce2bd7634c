"""What trials of more workers say of causes in the account: that they wait for one another, or are no remedy. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from pipebench.remedies.seen import without
from pipebench.results.account import Cause
from pipebench.results.advice import Finding
from pipebench.results.watched import WatchResult

_CAUSES = ("workers-blocked", "shared-lock", "storage", "no-workers")
_MOST_OF = 0.4  # of the looks at a row: a line that is named
_BELOW = 0.8  # of what a loop without waits, or with independent workers, would gain: more is hardly told from it
_FEW = 1.25  # the most that an unclear trial may leave open, or that a cause may save that a trial has belied


def with_shared(watched: WatchResult, findings: Sequence[Finding], loader: int) -> WatchResult:
    """The same result. If more workers that wait brought no more, the cause says so, and the line where they wait.

    That there are no workers is no cause if some were tried and brought nothing, and if it could not save much. Neither
    is one thread of torch, if more were tried and brought nothing.
    """
    account = watched.account
    if account is None:
        return watched
    causes = account.causes
    if _were_no_remedy(findings):
        causes = tuple(one for one in causes if not _is_small(watched, one, loader))
    if any(one.change.loop_threads > 1 and one.outcome in ("no-gain", "slower") for one in findings):
        causes = tuple(one for one in causes if one.code != "few-threads")
    causes = tuple(_told(watched, one, findings) if _is_wait(watched, one, loader) else one for one in causes)
    return replace(watched, account=replace(account, causes=causes))


def _were_no_remedy(findings: Sequence[Finding]) -> bool:
    """Whether workers were tried, and no number of them gained or may have gained."""
    tried = [one for one in findings if one.change.remedy == "num_workers" and one.change.settings["num_workers"]]
    return bool(tried) and all(one.outcome in ("no-gain", "slower") for one in tried)


def _is_small(watched: WatchResult, cause: Cause, loader: int) -> bool:
    small = without(watched, cause.recoverable_s or 0.0) <= _FEW
    return cause.code == "no-workers" and cause.loader == loader and small


def _is_wait(watched: WatchResult, cause: Cause, loader: int) -> bool:
    """Whether making batches waits for something. Without workers, the CPU time of samples tells."""
    if cause.code not in _CAUSES or cause.loader != loader:
        return False
    one = next((one for one in watched.loaders if one.loader == loader), None)
    waits = one is not None and (one.sample_cpu_s or 0.0) < 0.5 * (one.sample_s or 0.0)
    return cause.code != "no-workers" or waits


def _tried(findings: Sequence[Finding], present: int) -> tuple[int, int] | None:
    """How many workers are enough, and the fewest above them, and above the present ones, that brought no more.

    None: none were tried, or the loop hardly waits any more, or independent workers might have brought no more either.
    """
    counts = {
        int(one.change.settings["num_workers"] or 0): one
        for one in findings
        if one.change.remedy == "num_workers" and one.gain is not None
    }
    best = max(counts, key=lambda one: _gained(counts[one]), default=0)
    enough = best if counts and _gained(counts[best]) else present
    low, high = _of_enough(counts.get(enough))
    for more in sorted(one for one in counts if one > max(enough, present)):
        limit = counts[more].change.predicted or math.inf
        independent = min(limit, low * more / max(1, enough))
        if high < _BELOW * limit and _brought_less(counts[more], _BELOW * independent):
            return enough, more
    return None


def _of_enough(found: Finding | None) -> tuple[float, float]:
    """The interval of what the workers that are enough bring: 1 if they are the present ones."""
    if found is None or found.gain is None or found.outcome != "gain":
        return 1.0, 1.0
    return found.gain.low, found.gain.high


def _gained(found: Finding) -> float:
    return found.gain.speedup if found.outcome == "gain" and found.gain is not None else 0.0


def _brought_less(found: Finding, independent: float) -> bool:
    """Whether the interval of a trial excludes what `independent` workers bring, and shows that they bring no more."""
    assert found.gain is not None
    no_more = found.outcome != "unclear" or found.gain.high <= _FEW or max(found.ratios, default=1.0) < 1.0
    return no_more and found.gain.high < independent


def _told(watched: WatchResult, cause: Cause, findings: Sequence[Finding]) -> Cause:
    tried = _tried(findings, int(cause.values.get("workers", 0)))
    if tried is None:
        return cause
    enough, more = tried
    values = {**cause.values, "enough_workers": enough, "tried_workers": more}
    rows = [one for one in watched.drilled if one.loader == cause.loader and one.lines]
    if rows:
        row = max(rows, key=lambda one: one.worker_share)
        line = row.lines[0]
        if line.line and line.share >= _MOST_OF:
            values |= {"file": line.file, "line": line.line, "function": line.function, "text": line.text}
            values["at_line"] = row.worker_share * line.share
    return replace(cause, values=values)
