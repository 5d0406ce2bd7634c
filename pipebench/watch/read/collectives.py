"""What a rank does by itself in its loop, besides waiting and training. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from statistics import fmean

from pipebench.watch.read.gather import Run
from pipebench.watch.record.program_lines import OwnSteps
from pipebench.watch.record.sampling import STEP_BITS, weight

_NS = 1e-9


def other_alone_s(run: Run, forward_s: float, optimiser_s: float) -> float | None:
    """Seconds of the row "other" that are surely the rank's own; None if it trains alone.

    Collectives outside backward are in that row: a framework may sum gradients there, or hand batches to other ranks.
    In them the ranks wait for each other. The own work of a step is without them, but with forward and the optimiser.
    While all steps are kept, their sum tells more than the usual step: what some steps do alone.
    """
    steps = [step for process in run.of_script() for line in process.of(OwnSteps) for step in line.steps]
    later = [step for step in steps if step.number]  # the first one holds what came before the loop
    if not later:
        return None
    weights = [weight(step.number, STEP_BITS) for step in later]
    usual_ns, count = _median([step.work_ns for step in later], weights), steps[-1].number + 1
    own_ns = min(usual_ns, fmean([step.work_ns for step in later], weights)) * count
    if max(weights) == 1:
        own_ns = max(own_ns, usual_ns + sum(step.work_ns for step in later))
    return max(0.0, own_ns * _NS - forward_s - optimiser_s)


def _median(values: Sequence[int], weights: Sequence[int]) -> int:
    """The lower one, of values that each stand for so many."""
    ordered = sorted(zip(values, weights, strict=True))
    reached, half = accumulate(each for _, each in ordered), sum(weights) / 2
    return next(value for (value, _), place in zip(ordered, reached, strict=True) if place >= half)
