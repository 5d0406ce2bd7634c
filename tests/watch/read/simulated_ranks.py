"""Ranks of one training in simulated time: workers that load ahead, the ranks' own work, and an all-reduce for all."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from made_up_costs import made
from made_up_trials import LOADER

from pipebench.results.ranks import StepOfRank
from pipebench.results.watched import PhaseResult, Verdict, WatchResult, WorkerResult
from pipebench.watch.read.ranks import Rank

STEPS = 400
AHEAD = 2
BACKWARD_S = 0.004
NOTHING = WatchResult(
    Verdict("data"), None, (), (), STEPS, None, None, (), None, None, (), (LOADER,), (1,), None, None, None, None, None,
    None, None, 2.0, 0, True, (),
)  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """What a rank needs: a worker (or without workers the loop) for a batch, and its own process for a step.

    `scatter` is the standard deviation of both, as a share of them.
    """

    load_s: float
    work_s: float
    workers: int = 1
    scatter: float = 0.03


def simulated(plans: Sequence[Plan], seed: int = 1) -> tuple[list[Rank], float]:
    """The ranks as they would be recorded, and the true seconds of a step, without the first tenth."""
    drawn = random.Random(seed)

    def around(mean_s: float, plan: Plan) -> float:
        return max(0.2 * mean_s, drawn.gauss(mean_s, plan.scatter * mean_s))

    loads = [[around(one.load_s, one) for _ in range(STEPS)] for one in plans]
    works = [[around(one.work_s, one) for _ in range(STEPS)] for one in plans]
    free = [[0.0] * max(1, one.workers) for one in plans]
    taken: list[list[float]] = [[] for _ in plans]
    steps: list[list[StepOfRank]] = [[] for _ in plans]
    ends, now = [], 0.0
    for step in range(STEPS):
        arrived = []
        for rank, plan in enumerate(plans):
            ready = now + loads[rank][step]
            if plan.workers:
                asked, worker = step - AHEAD * plan.workers, step % plan.workers
                begin = max(free[rank][worker], taken[rank][asked] if asked >= 0 else 0.0)
                free[rank][worker] = ready = begin + loads[rank][step]
            taken[rank].append(max(now, ready))
            arrived.append(taken[rank][-1] + works[rank][step])
            wait_s = taken[rank][-1] - now
            steps[rank].append(StepOfRank(step, round(wait_s * 1e9), round(works[rank][step] * 1e9)))
        now = max(arrived) + BACKWARD_S
        ends.append(now)
    step_s, first = now / STEPS, STEPS // 10
    ranks = [
        Rank(number, number, steps[number], _recorded(plan, loads[number], step_s)) for number, plan in enumerate(plans)
    ]
    return ranks, (ends[-1] - ends[first]) / (STEPS - 1 - first)


def _recorded(plan: Plan, loads: Sequence[float], step_s: float) -> WatchResult:
    loader = replace(LOADER, workers=plan.workers)
    found = replace(NOTHING, loaders=(loader,), loop=(PhaseResult("wait", step_s, 1.0),))
    if not plan.workers:
        return found
    each = [loads[number :: plan.workers] for number in range(plan.workers)]
    workers = tuple(
        WorkerResult(1, number, (), len(one), 8 * len(one), 0, sum(one), 0.0, 0.9, 0.0, 0, True)
        for number, one in enumerate(each)
    )
    kept = list(loads[-256:])
    scaled = [one * fmean(loads) / fmean(kept) for one in kept]
    costs = made(blocked=scaled, cpu=[0.0] * len(scaled), workers=plan.workers)
    return replace(found, workers=workers, costs=(costs,))
