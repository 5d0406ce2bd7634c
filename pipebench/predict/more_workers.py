"""What more workers would bring to a watched loop, by the simulation. Pure."""

from __future__ import annotations

import math
from dataclasses import replace

from pipebench.predict.asked import beside_workers
from pipebench.predict.intervals import expected
from pipebench.predict.ladder import ladder
from pipebench.predict.load import borne_out
from pipebench.predict.loader import Setting, short_pass
from pipebench.predict.planning import foreseen
from pipebench.predict.room import Room
from pipebench.results.costs import Passport
from pipebench.stats import Speedup

_MOST_PER_CORE = 8  # workers that wait need no core, but each of them needs memory
_MOST = 64
NEARLY = 0.95  # of the best rate: then fewer workers are better


def most_workers(cores: float) -> float:
    """The highest rung of a ladder of workers."""
    return min(_MOST, _MOST_PER_CORE * max(1.0, cores))


def more_workers(
    passport: Passport, room: Room, beside_others: bool = True, start_s: float = 0.0
) -> tuple[int, Speedup] | None:
    """The number of workers that brings most, of a ladder above the present number, and the speed-up of the loop.

    Each rung has twice as many workers as the one before. Besides, there are as many as cores, and as the parts of the
    work: each has one of them then, or two. Of numbers that bring nearly the same, it is the smallest. Where there is
    no room for any rung, the most that there is room for are the only one. None: for no more, or they take longer to
    start than they save in a pass. `beside_others` is as in `foreseen`. A worker's start keeps a core busy for
    `start_s` seconds of each pass: that counts in the choice, and not in the speed-up, which is of the loop.
    """
    told, passport = passport, borne_out(passport)
    passport = passport if beside_others else replace(passport, others=0.0)
    costs, ahead = passport.costs, passport.costs.prefetch_factor
    lowest = max(1, 2 * costs.workers)
    between = (passport.cores, room.parts, room.parts and math.ceil(room.parts / 2))
    more = [one for one in between if one is not None and int(one) > costs.workers]
    known = ladder(lowest, most_workers(passport.cores), more) or [lowest]
    fewer = range(lowest - 1, costs.workers, -1)
    rungs = [one for one in known if not room.lacks(one)] or [one for one in fewer if not room.lacks(one)][:1]
    if not rungs:
        return None
    loops = [[beside_workers(costs, one, passport.cores)] for one in rungs]
    rates = [expected(loop, _setting(passport, one, ahead)) for loop, one in zip(loops, rungs, strict=True)]
    if start_s and costs.turns:
        rates = [_with_start(passport, one, rate, start_s) for one, rate in zip(rungs, rates, strict=True)]
        now = expected([costs], _setting(passport, costs.workers, ahead))
        if max(rates) <= _with_start(passport, costs.workers, now, start_s):
            return None
    found = next(rung for rung, rate in zip(rungs, rates, strict=True) if rate >= NEARLY * max(rates))
    return found, foreseen(told, found, ahead, beside_others)


def _with_start(passport: Passport, workers: int, rate: float, start_s: float) -> float:
    """The rate of a pass with the start of its workers, all of which start at once."""
    turns = passport.costs.turns or 1
    return turns / (turns / rate + workers * start_s / passport.cores)


def _setting(passport: Passport, workers: int, ahead: int) -> Setting:
    turns = short_pass(passport.costs, workers, ahead)
    return Setting(workers, ahead, passport.cores, passport.others, turns)
