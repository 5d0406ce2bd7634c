"""Tells whether workers that are started for each pass fill something anew in each of them, such as a cache. Pure.

Then their first batches cost more than their last ones, in every pass. Workers that live on would keep what they have.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable

from pipebench.results.account import Cause
from pipebench.watch.read.gather import Run, loaders_found
from pipebench.watch.read.of_causes import Seen
from pipebench.watch.record.lines import FetchSums

CODE = "warm-up"
_LEAST_BATCHES = 8  # of a worker in a pass, without its first one
_LEAST = 0.1  # of the time of the workers
_FEWEST = 4  # workers, those of each pass counted anew
_CLEAR = 3.0  # standard errors: made-up costs that do not change look so in 2.5 % of runs at most (lognormal, σ = 1)
_NS = 1e-9


def warming(seen: Seen) -> Iterable[Cause]:
    """What batches at the begin of passes cost more, if workers end with each pass and the loop waits for them."""
    for one in seen.in_loop:
        found = _halves(seen.run, one.loader)
        waited = seen.s("wait-for-worker", loader=one.loader)
        if found is None or not waited:
            continue
        early_s, late_s, share = found
        spent = min(waited, share * sum(row.s for row in seen.rows(loader=one.loader)))
        saved = min(spent, seen.saved("wait-for-worker", loader=one.loader) or 0.0)
        values: dict[str, str | int | float] = {"early_s": early_s, "late_s": late_s}
        values |= {"made_by": one.made_by} if one.made_by else {}
        yield Cause(CODE, spent, saved or None, one.loader, values)


def _halves(run: Run, loader: int) -> tuple[float, float, float] | None:
    """The mean seconds of a batch in the first half of a pass and in the second one, and the share of what is more.

    The first batch of each worker is left out, because its start counts. None if no more is to be seen.
    """
    described = loaders_found(run.processes).get(loader)
    if described is None or described.persistent:
        return None
    halves = [_of_worker(made) for made in _made(run, loader)]
    early, late = ([one[half] for one in halves if one is not None] for half in (0, 1))
    more = [first - second for first, second in zip(early, late, strict=True)]
    if len(more) < _FEWEST or statistics.mean(more) <= _CLEAR * statistics.stdev(more) / math.sqrt(len(more)):
        return None
    share = sum(more) / (sum(early) + sum(late))
    return (statistics.mean(early) * _NS, statistics.mean(late) * _NS, share) if share >= _LEAST else None


def _made(run: Run, loader: int) -> Iterable[list[tuple[int, int]]]:
    """The number and the time of each followed batch of a worker in a pass, but the first."""
    for process in run.processes:
        passes = defaultdict[int, list[tuple[int, int]]](list)
        for sums in process.of(FetchSums) if process.role == "worker" and process.loader == loader else ():
            for one in sums.handed:
                if one.nth:
                    passes[one.number_of_pass].append((one.nth, one.done - one.began))
        yield from passes.values()


def _of_worker(made: list[tuple[int, int]]) -> tuple[float, float] | None:
    if len(made) < _LEAST_BATCHES:
        return None
    took = [time for _, time in sorted(made)]
    middle = len(took) // 2
    return statistics.mean(took[:middle]), statistics.mean(took[middle:])
