"""A stream whose workers each give all of its samples: a pass trains on each one as often as there are workers. Pure.

A dataset whose code does not ask for the worker may do so; see `watch/script/dividing.py`. It is certain where the
first batches of all workers were the same, one by one, and all workers gave as many samples up to the end of a pass.
Streams that draw their samples, or shuffle them in another order in each worker, have other first batches.
"""

from __future__ import annotations

from collections.abc import Iterable

from pipebench.results.account import STARTING, Cause
from pipebench.results.watched import LoaderResult
from pipebench.watch.read.gather import Process, Run
from pipebench.watch.read.of_causes import Seen
from pipebench.watch.record.lines import FetchSums, PassEnded

_FEWEST = 2  # batches, which differ from one another


def given_by_each(seen: Seen) -> Iterable[Cause]:
    for one in seen.in_loop:
        batches = _same_batches(seen.run, one)
        if batches:
            spent = sum(row.s for row in seen.rows(loader=one.loader) if row.code not in STARTING)
            again_s = spent * (1 - 1 / one.workers)
            values: dict[str, str | int | float] = {"workers": one.workers, "same": batches, "function": one.dataset}
            yield Cause("each-gives-all", again_s, again_s, one.loader, values)


def _same_batches(run: Run, one: LoaderResult) -> int:
    """How many first batches were the same in all workers; 0: it is not certain that each gives all samples."""
    workers = run.workers_of(one.loader)
    if not one.undivided or one.workers < 2 or {its.worker for its in workers} != set(range(one.workers)):
        return 0
    if not any(line.how == "exhausted" for line in run.of_loader(PassEnded, one.loader)):
        return 0
    if len({sum(map(_samples, workers_of)) for workers_of in _by_number(workers).values()}) != 1:
        return 0
    firsts = [known for its in workers if (known := _fingerprints(its))]
    least = min(map(len, firsts), default=0)
    same = {known[:least] for known in firsts}
    certain = len(firsts) >= one.workers and len(same) == 1 and len(set(*same)) == least >= _FEWEST
    return least if certain else 0


def _by_number(workers: Iterable[Process]) -> dict[int | None, list[Process]]:
    found: dict[int | None, list[Process]] = {}
    for one in workers:
        found.setdefault(one.worker, []).append(one)
    return found


def _samples(worker: Process) -> int:
    return sum(line.samples - line.unused for line in worker.of(FetchSums))


def _fingerprints(worker: Process) -> tuple[int, ...]:
    """The numbers of the first batches of a worker of the first pass."""
    return tuple(batch.holds for line in worker.of(FetchSums) for batch in line.single if batch.holds)
