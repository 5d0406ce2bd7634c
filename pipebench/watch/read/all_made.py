"""Tells whether each worker of a stream makes all of its samples, and gives only its own part of them. Pure.

Such a stream is divided after the work: `for number, sample in enumerate(made): if number % workers == worker`. More
workers then bring nothing. In the batches that are recorded in full, each decoder and each transform ran as often for a
sample as there are workers.
"""

from __future__ import annotations

from collections import Counter

from pipebench.watch.read.gather import Process, Run, loaders_found
from pipebench.watch.record.lines import BatchInFull

_MAKES = ("decode", "transform")  # kinds of rows
_STREAMS = (".__iter__", ".__next__")  # ends of names of rows
_NEAR = 0.2
_FEWEST = 2  # batches


def times_made(run: Run, loader: int) -> float | None:
    """How often a sample of this loader is made, if that is once by each of several workers; else None."""
    described = loaders_found(run.processes).get(loader)
    workers = [one for one in run.processes if one.role == "worker" and one.loader == loader]
    if described is None or described.workers < 2 or not described.batch_size:
        return None
    names = {stage.name for one in workers for stage in one.stages.values()}
    if not any(name.endswith(_STREAMS) for name in names):
        return None
    counted = [_least(process, line) for process in workers for line in process.of(BatchInFull)]
    each = [one / described.batch_size for one in counted]
    near = [abs(one - described.workers) <= _NEAR * described.workers for one in each]  # a buffer fills in few
    return sum(each) / len(each) if len(each) >= _FEWEST and all(near) else None


def _least(process: Process, line: BatchInFull) -> int:
    """How often the decoder or transform ran that ran least in this batch; 0 without any."""
    entered = Counter(stage.name for one in line.stages[1::2] if (stage := process.stage(one)).kind in _MAKES)
    return min(entered.values(), default=0)
