"""What a rank does by itself in its loop, besides waiting and training. Pure."""

from __future__ import annotations

from statistics import fmean

from pipebench.watch.read.gather import Run
from pipebench.watch.record.program_lines import OwnSteps
from pipebench.watch.record.sampling import STEP_BITS, weight

_NS = 1e-9


def other_alone_s(run: Run, forward_s: float, optimiser_s: float) -> float | None:
    """Seconds of the row "other" that are surely the rank's own; None if it trains alone.

    Collectives outside backward are in that row: a framework may sum gradients there, or hand batches to other ranks.
    In them the ranks wait for each other. The own work of a step is without them, but with forward and the optimiser.
    """
    steps = [step for process in run.of_script() for line in process.of(OwnSteps) for step in line.steps]
    later = [step for step in steps if step.number]  # the first one holds what came before the loop
    if not later:
        return None
    weights = [weight(step.number, STEP_BITS) for step in later]
    mean_ns = fmean([step.work_ns for step in later], weights)
    return max(0.0, mean_ns * _NS * (steps[-1].number + 1) - forward_s - optimiser_s)
