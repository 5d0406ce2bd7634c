"""Tells whether workers that are started for each pass fill something anew in each of them, such as a cache. Pure.

Then their first batches cost more than their last ones, in each pass but the first, which would fill it anyway. What
else costs more at the begin of a pass, as the longest samples first, looks the same: nothing is sure before a trial.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence

from pipebench.results.account import Cause
from pipebench.stats import student
from pipebench.watch.read.gather import Run, loaders_found
from pipebench.watch.read.of_causes import Seen, as_made
from pipebench.watch.record.lines import FetchSums, HandedOver, LoaderFound

CODE = "warm-up"
_LEAST_BATCHES = 8  # of a worker in a pass, without those that it made before the loop took one
_LEAST = 0.1  # of the time of the workers
_FEWEST_PASSES, _FEWEST = 2, 4  # without the first pass; workers in them
_SURE = 0.99  # Student's t: made-up costs that do not change look so in 0.5 % of runs at most (lognormal, σ up to 1)
_NS = 1e-9
Halves = tuple[float, float]


def warming(seen: Seen) -> Iterable[Cause]:
    """What batches at the begin of passes cost more, if workers end with each pass and the loop waits for them.

    Not of a stream: it begins anew in each pass, also in workers that live on (`begins.stream_begins`). Nor where no
    setting lets workers live on.
    """
    for one in seen.in_loop:
        found = _halves(seen.run, one.loader)
        waited = seen.s("wait-for-worker", loader=one.loader)
        if found is None or not waited or one.remade == "other":
            continue
        early_s, late_s, share = found
        later = (one.passes - 1 - one.others) / one.passes
        spent = min(waited, share * later * sum(row.s for row in seen.rows(loader=one.loader)))
        saved = min(spent, seen.saved("wait-for-worker", loader=one.loader) or 0.0)
        values: dict[str, str | int | float] = {"early_s": early_s, "late_s": late_s, **as_made(one)}
        yield Cause(CODE, spent, saved or None, one.loader, values, unsure=True)


def _halves(run: Run, loader: int) -> tuple[float, float, float] | None:
    """The mean seconds of a batch in the first half of a pass and in the second one, and the share of what is more.

    None if no more is to be seen, or if the later batches are smaller by as much.
    """
    described = loaders_found(run.processes).get(loader)
    if described is None or described.persistent or described.iterable or not described.can_persist:
        return None
    passes = _passes(run, described)
    if len(passes) < _FEWEST_PASSES or any(_more(workers) <= 0 for workers in passes):
        return None
    workers = [one for found in passes for one in found]
    apart = [early - late for (early, late), _ in workers]
    if len(apart) < _FEWEST:
        return None
    if statistics.mean(apart) <= student(_SURE, len(apart) - 1) * statistics.stdev(apart) / math.sqrt(len(apart)):
        return None
    (early, late), sizes = (tuple(map(statistics.mean, zip(*of, strict=True))) for of in zip(*workers, strict=True))
    share = (early - late) / (early + late)
    smaller = (sizes[0] - sizes[1]) / max(1.0, sum(sizes))
    return (early * _NS, late * _NS, share) if share >= _LEAST and smaller < share / 2 else None


def _more(workers: Sequence[tuple[Halves, Halves]]) -> float:
    return statistics.mean(early - late for (early, late), _ in workers)


def _passes(run: Run, described: LoaderFound) -> list[list[tuple[Halves, Halves]]]:
    """For each pass but the first, and each of its workers: what a batch took and its bytes, in both halves."""
    made = defaultdict[int, list[list[HandedOver]]](list)
    for process in run.processes:
        if process.role == "worker" and process.loader == described.loader:
            own = defaultdict[int, list[HandedOver]](list)
            for line in process.of(FetchSums):
                for one in line.handed:
                    if one.number_of_pass and one.nth >= (described.prefetch_factor or 0):
                        own[one.number_of_pass].append(one)
            for number, batches in own.items():
                if len(batches) >= _LEAST_BATCHES:
                    made[number].append(sorted(batches, key=lambda one: one.nth))
    return [[_of_worker(batches) for batches in workers] for workers in made.values()]


def _of_worker(batches: Sequence[HandedOver]) -> tuple[Halves, Halves]:
    took = [float(one.done - one.began) for one in batches]
    sizes = [float(one.pipe_bytes + one.shared_bytes + one.array_bytes) for one in batches]
    middle = len(batches) // 2
    return _in_halves(took, middle), _in_halves(sizes, middle)


def _in_halves(values: Sequence[float], middle: int) -> Halves:
    return statistics.mean(values[:middle]), statistics.mean(values[middle:])
