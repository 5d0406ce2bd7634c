"""One worker of a loader that never rests while the others do: it has most of the work, or is slower. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pipebench.results.account import Cause
from pipebench.results.watched import LoaderResult, WorkerResult
from pipebench.watch.read.of_causes import Seen, on_cores_s, wanted_cores

_BUSY = 0.8
_EVEN = 0.75  # of the busiest worker: the mean of all
_ALIKE = 1.25  # times the batches and samples of the others
_SLOWER = 1.5  # times as long for a sample


def one_busy_worker(
    seen: Seen, one: LoaderResult, workers: Sequence[WorkerResult], whole: Cause, mean: float
) -> Cause | None:
    """The cause of waits for one worker of several, which are busy for `mean` of the time; None if it is no such one.

    If it made about as many samples as the others, and needed much longer for each, work that is spread evenly helps
    nothing: something differs there.
    """
    first = max(workers, key=lambda worker: worker.busy_share)
    made_s, batches = sum(worker.busy_s for worker in workers), sum(worker.batches for worker in workers)
    # Of few batches a pass, some workers get one more than others: that is no uneven work.
    more = first.busy_s - made_s / len(workers) > one.passes * made_s / max(1, batches)
    if not (first.busy_share >= _BUSY and mean < _EVEN * first.busy_share and more):
        return None
    others_busy = (mean * len(workers) - first.busy_share) / (len(workers) - 1)
    values = {**whole.values, "worker": first.worker, "most_busy": first.busy_share, "others_busy": others_busy}
    wait_s = sum(row.s for row in seen.account.rows if row.loader == one.loader)
    code, usual = "uneven-workers", mean
    if slow := _slower(first, [worker for worker in workers if worker is not first]):
        code, usual, values = "slow-worker", others_busy, {**values, **slow}
    saved = None if whole.recoverable_s is None else min(whole.recoverable_s, (first.busy_share - usual) * wait_s)
    if saved is not None and code == "uneven-workers":
        saved = min(saved, on_cores_s(seen, one, wanted_cores(workers), wait_s))
    values |= {"stream": 1} if one.shards is not None else {}
    return replace(whole, code=code, recoverable_s=saved, values=values)


def _slower(first: WorkerResult, others: Sequence[WorkerResult]) -> dict[str, str | float]:
    """How many times as long a worker needs for a sample as the others, and for what; empty if it has more to do."""
    samples, batches = sum(one.samples for one in others), sum(one.batches for one in others)
    if not samples or not first.samples:
        return {}
    if first.samples * len(others) > _ALIKE * samples or first.batches * len(others) > _ALIKE * batches:
        return {}
    there, usual = _of_sample([first]), _of_sample(others)
    if sum(there) < _SLOWER * sum(usual):
        return {}
    more = dict(
        zip(("computes", "no-core", "blocked"), (a - b for a, b in zip(there, usual, strict=True)), strict=True)
    )
    return {"slower": sum(there) / sum(usual), "slow_part": max(more, key=more.__getitem__), "slow_s": sum(there)}


def _of_sample(workers: Sequence[WorkerResult]) -> tuple[float, float, float]:
    """Seconds of a sample in which workers computed, had no core, and waited for something else."""
    samples = sum(one.samples for one in workers)
    busy, cpu, no_core = (
        sum(each) / samples for each in zip(*((one.busy_s, one.cpu_s, one.core_wait_s) for one in workers), strict=True)
    )
    return cpu, no_core, max(0.0, busy - cpu - no_core)
