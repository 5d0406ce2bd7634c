"""Tells whether each worker of a stream makes all of its samples, and gives only its own part of them. Pure.

Such a stream is divided after the work: `for number, sample in enumerate(made): if number % workers == worker`. More
workers then bring nothing. In the batches that are recorded in full, each decoder and each transform ran as often for a
sample as there are workers. Without these, the dataset's own functions tell, but a sample may be made of several calls
of them. Where the work is divided afterwards, the first sample of some worker took another number of calls: one, in the
first worker.

In a chain of iterators, such as webdataset's, the items that each stage gave on are counted. The stage that divides
gives one item for as many as there are workers, in each worker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pipebench.watch.read.chains import MAKES, chain
from pipebench.watch.read.gather import Process, Run, loaders_found
from pipebench.watch.record.exclusive_time import REST
from pipebench.watch.record.lines import BatchInFull, PassBegun

_STREAMS = (".__iter__", ".__next__")  # ends of names of rows
_NEAR = 0.2
_FEWEST = 2  # batches
_PARTS_OTHERWISE = frozenset({  # stages that give other items than came to them, or keep some for later
    "batched", "detshuffle", "repeat", "rsample", "select", "shuffle", "unbatched", "unlisted",
})  # fmt: skip
_DIVIDED = 20  # items at least, of a stage that divides
_ROUGH = 0.02  # items that are dropped for other reasons


def times_made(run: Run, loader: int) -> float | None:
    """How often a sample of this loader is made, if that is once by each of several workers; else None."""
    described = loaders_found(run.processes).get(loader)
    workers = run.workers_of(loader)
    if described is None or described.workers < 2:
        return None
    if _divided_later(run, loader, workers, described.workers):
        return float(described.workers)
    if not described.batch_size:
        return None
    stages = {stage for one in workers for stage in one.stages.values()}
    if not any(stage.name.endswith(_STREAMS) for stage in stages):
        return None
    if any(stage.kind in MAKES for stage in stages):
        counted = [_least(process, line) for process in workers for line in process.of(BatchInFull)]
        each = [one / described.batch_size for one in counted]
    else:
        each = _by_functions(workers)
    near = [abs(one - described.workers) <= _NEAR * described.workers for one in each]  # a buffer fills in few
    return sum(each) / len(each) if len(each) >= _FEWEST and all(near) else None


def _divided_later(run: Run, loader: int, workers: Sequence[Process], count: int) -> bool:
    """Whether each worker has a stage after those that make samples which keeps one of `count` items."""
    passes = len(run.of_loader(PassBegun, loader))
    return len(workers) >= count and all(_divides(one, count, passes) for one in workers)


def _divides(process: Process, count: int, passes: int) -> bool:
    """Whether a stage of this worker's chain gave one of `count` items that were made and came to it."""
    return any(
        abs(one.came - count * one.gave) <= count * passes + _ROUGH * one.came
        for one in chain(process)
        if one.makes and one.gave >= _DIVIDED and one.stage.name not in _PARTS_OTHERWISE
    )


def _least(process: Process, line: BatchInFull) -> int:
    """How often the decoder or transform ran that ran least in this batch; 0 without any."""
    entered = Counter(stage.name for one in line.stages[1::2] if (stage := process.stage(one)).kind in MAKES)
    return min(entered.values(), default=0)


def _by_functions(workers: Sequence[Process]) -> list[float]:
    """How often the function that ran least ran for a sample, in each batch; empty if all first samples are as others.

    Of each batch, only the samples after its first count.
    """
    batches = [(line, _calls(process, line)) for process in workers for line in process.of(BatchInFull)]
    each: list[float] = []
    divided = False
    for line, samples in batches:
        first, later = samples[:1], samples[1:]
        ran = {name: count for name, count in sum(later, Counter[str]()).items() if count >= len(later)}
        if not ran:
            continue
        name = min(ran, key=lambda one: ran[one])
        each.append(ran[name] / len(later))
        divided |= line.batch == 0 and first[0][name] not in {one[name] for one in later}
    return each if divided else []


def _calls(process: Process, line: BatchInFull) -> list[Counter[str]]:
    """For each sample that this batch took from the stream: how often each function was called."""
    found: list[Counter[str]] = []
    within = [REST]
    calls: Counter[str] = Counter()
    for number in line.stages[1::2]:
        stage = process.stage(number)
        if number == REST:
            if any(process.stage(one).name.endswith(_STREAMS) for one in within):
                found.append(calls)
            within, calls = [REST], Counter()
        elif len(within) > 1 and within[-2] == number:  # a function has returned to what called it
            within.pop()
        else:
            within.append(number)
            calls[stage.name] += stage.kind == "function"
    return [+one for one in found]
