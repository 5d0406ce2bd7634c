"""What more workers would bring to a watched loop, by the simulation. Pure."""

from __future__ import annotations

from itertools import count, takewhile

from pipebench.predict.asked import handed_over
from pipebench.predict.intervals import expected
from pipebench.predict.load import borne_out
from pipebench.predict.loader import Setting
from pipebench.predict.planning import foreseen
from pipebench.results.costs import Passport
from pipebench.stats import Speedup

_MOST_PER_CORE = 8  # workers that wait need no core, but each of them needs memory
_MOST = 64
NEARLY = 0.95  # of the best rate: then fewer workers are better


def most_workers(cores: float) -> float:
    """The highest rung of a ladder of workers."""
    return min(_MOST, _MOST_PER_CORE * max(1.0, cores))


def ladder(lowest: int, most: float) -> list[int]:
    """Numbers of workers from `lowest` up to `most`, each twice the one before; none if already the lowest is more."""
    return [*takewhile(lambda rung: rung <= most, (lowest << doubled for doubled in count()))]


def more_workers(passport: Passport) -> tuple[int, Speedup]:
    """The number of workers that brings most, of a ladder above the present number, and the speed-up of the loop.

    Each rung has twice as many workers as the one before. Of numbers that bring nearly the same, it is the smallest.
    """
    passport = borne_out(passport)
    costs, ahead = passport.costs, passport.costs.prefetch_factor
    lowest = max(1, 2 * costs.workers)
    rungs = ladder(lowest, most_workers(passport.cores)) or [lowest]
    rates = [expected([handed_over(costs)], Setting(one, ahead, passport.cores, passport.others)) for one in rungs]
    found = next(rung for rung, rate in zip(rungs, rates, strict=True) if rate >= NEARLY * max(rates))
    return found, foreseen(passport, found, ahead)
