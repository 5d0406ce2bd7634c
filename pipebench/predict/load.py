"""How busy others kept the machine when a passport was taken, as far as the other figures bear it out. Pure."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from statistics import fmean

from pipebench.predict.loader import Setting, simulate
from pipebench.results.costs import LoopCosts, Passport

MODEL_ERROR = 0.12  # about the root mean square of relative errors: docs/figures/prediction.md
_HALVINGS = 24
_MOST = 1e4  # threads of others: with so many, a loop has as good as no core


@cache
def borne_out(passport: Passport) -> Passport:
    """The passport with no more threads of others than its measured rate allows.

    They were told from the cores that others used, or from waits for a core. Others may use cores that nobody else
    wants, and a thread that wakes often waits each time, so both can tell of more threads than there were. With so
    many, the loop would have been slower than it was: then they are the most that leave it its measured rate. An error
    that the model has elsewhere too is no reason to doubt them.
    """
    found = replace(passport, costs=_with_whole_step(passport.costs, passport.cores))
    measured = found.costs.samples / found.costs.iteration_s
    if not found.others or present(found) * (1 + MODEL_ERROR) >= measured:
        return found
    low, high = 0.0, min(found.others, _MOST)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        fits = present(replace(found, others=middle)) >= measured
        low, high = (middle, high) if fits else (low, middle)
    return replace(found, others=low)


def present(passport: Passport, turns: int | None = None) -> float:
    """The samples per second of the present setting, as the simulation says; of whole passes, if they are given."""
    costs = passport.costs
    now = Setting(costs.workers, costs.prefetch_factor, passport.cores, passport.others, turns)
    return simulate(costs, now).batches_per_s * costs.samples


def _with_whole_step(costs: LoopCosts, cores: float) -> LoopCosts:
    """The costs with a step that lasts no less than its CPU time on all cores.

    Its wall time is without waits for a core. On a busy machine these are so long that nothing may be left of it.
    """
    mean, least = fmean(costs.step_s), costs.step_cpu_s / cores
    if mean >= least:
        return costs
    return replace(costs, step_s=tuple(one * least / mean if mean else least for one in costs.step_s))
