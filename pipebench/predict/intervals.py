"""Intervals of predictions: from the scatter of batches, and from the error of the model where it is known. Pure."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean, stdev

from pipebench.predict.loader import Setting, simulate
from pipebench.results.costs import LoopCosts
from pipebench.results.plan import Figure
from pipebench.stats import NORMAL

_AGAIN = 10  # bootstrap samples
# of more workers or batches ahead, the scatter is taken to be the same: a simulation of a thousand takes a second
_WORKERS, _AHEAD = 128, 512
_BLOCK = 16  # batches that stay together, so that slow batches keep their distance


def predicted(ways: Sequence[LoopCosts], setting: Setting, model_error: float) -> Figure:
    """Batches per second, with an interval of 95 %.

    Its logarithm has the variance of a block bootstrap over batches (Künsch, The jackknife and the bootstrap for
    general stationary observations, 1989) plus that of the model, `model_error` squared. Several `ways` are costs that
    the records cannot tell apart: the interval holds all of them.
    """
    rates = _rates(ways, setting)
    half = NORMAL * math.hypot(_scatter(ways[0], setting), model_error)
    return Figure(_middle(rates), min(rates) * math.exp(-half), max(rates) * math.exp(half))


def expected(ways: Sequence[LoopCosts], setting: Setting) -> float:
    """The batches per second of `predicted`, without an interval."""
    return _middle(_rates(ways, setting))


def around(values: Sequence[float], model_error: float) -> Figure:
    """A figure that follows from means alone, such as the cores that a rate needs. `values` are the possible ones."""
    half = math.exp(NORMAL * model_error)
    return Figure(fmean(values), min(values) / half, max(values) * half)


def _rates(ways: Sequence[LoopCosts], setting: Setting) -> list[float]:
    return [simulate(each, setting).batches_per_s for one in ways for each in _in_one_process(one, setting)]


def _in_one_process(costs: LoopCosts, setting: Setting) -> Iterator[LoopCosts]:
    """The costs; then, for a loader that is to do without its workers, the least that they can be there.

    A worker's thread waits for the interpreter's lock while its feeder thread pickles, which looks blocked. And what
    the loop has received it must give back, tensor by tensor, in a later step: the records do not tell how long. Where
    receiving takes longer than the step, only the least counts: two loops with hundreds of tensors a batch gained 7.3
    and 6.3 without workers, and half of the steps was for that (docs/figures/advice-sets.md).
    """
    alone = bool(costs.workers) and not setting.workers
    if not alone or costs.receive_s < fmean(costs.step_s):
        yield costs
    if alone:
        given_back_s = min(costs.receive_s, costs.step_cpu_s / 2)
        yield replace(
            costs,
            blocked_s=tuple(max(0.0, one - costs.feeder_cpu_s) for one in costs.blocked_s),
            step_s=tuple(max(one / 2, one - given_back_s) for one in costs.step_s),
            step_cpu_s=costs.step_cpu_s - given_back_s,
        )


def _middle(rates: Sequence[float]) -> float:
    return math.exp(fmean(map(math.log, rates)))


def _scatter(costs: LoopCosts, setting: Setting) -> float:
    chance = random.Random(0)
    workers = min(setting.workers, _WORKERS)
    deep = max(2, _AHEAD // max(1, workers))
    few = replace(setting, workers=workers, prefetch_factor=min(setting.prefetch_factor, deep))
    found = [math.log(simulate(_resampled(costs, chance), few).batches_per_s) for _ in range(_AGAIN)]
    return stdev(found)


def _resampled(costs: LoopCosts, chance: random.Random) -> LoopCosts:
    batches, steps = _places(len(costs.cpu_s), chance), _places(len(costs.step_s), chance)
    return replace(
        costs,
        cpu_s=tuple(costs.cpu_s[one] for one in batches),
        blocked_s=tuple(costs.blocked_s[one] for one in batches),
        step_s=tuple(costs.step_s[one] for one in steps),
    )


def _places(count: int, chance: random.Random) -> list[int]:
    blocks = range(-(-count // _BLOCK))
    starts = [chance.randrange(count) for _ in blocks]
    return [(start + ahead) % count for start in starts for ahead in range(_BLOCK)][:count]
