"""What a straggler costs, beside a simulation in which the answer is known: the same training without it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from simulated_ranks import Plan, simulated

from pipebench.results.ranks import Ranks
from pipebench.watch.read.ranks import compared, independent

USUAL = Plan(load_s=0.040, work_s=0.002)


def _found(plans: list[Plan], seed: int = 1) -> tuple[Ranks, float]:
    ranks, step_s = simulated(plans, seed)
    return compared(len(plans), ranks), step_s


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("of", [2, 4])
def test_equal_ranks_whose_workers_are_the_limit_are_not_accused(of: int, workers: int, seed: int) -> None:
    """In nearly every step some rank waits briefly, because its workers loaded while it waited for another one."""
    found, step_s = _found([replace(USUAL, workers=workers)] * of, seed)
    own = [one.wait_s + one.work_s for one in found.rows]
    assert found.straggler is None
    assert found.cost_share < 0.02
    assert found.step_s == pytest.approx(step_s, rel=0.05) and max(own) > 0.3 * step_s


@pytest.mark.parametrize(
    "slow",
    [
        Plan(load_s=0.120, work_s=0.002), Plan(load_s=0.120, work_s=0.002, scatter=0.2),
        Plan(load_s=0.040, work_s=0.090), Plan(load_s=0.060, work_s=0.030),
    ],
    ids=["loads slowly", "loads slowly and unevenly", "computes longer", "both"],
)  # fmt: skip
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("of", [2, 4])
def test_the_cost_of_a_straggler_is_what_is_saved_without_it(of: int, workers: int, slow: Plan) -> None:
    plans = [replace(USUAL, workers=workers)] * (of - 1)
    found, step_s = _found([*plans, replace(slow, workers=workers)])
    _, without_s = _found([*plans, plans[0]])
    assert found.straggler == of - 1
    assert found.saved_share == pytest.approx(1 - without_s / step_s, rel=0.15)
    assert found.cost_share == pytest.approx(1 - without_s / step_s, rel=0.15)


@pytest.mark.parametrize("of", [2, 4])
def test_without_workers_the_whole_wait_is_a_ranks_own(of: int) -> None:
    usual = replace(USUAL, workers=0, scatter=0.2)
    found, _ = _found([usual] * of)
    assert found.straggler is None and found.cost_share > 0.05  # each is last by chance, and nothing was loaded ahead
    found, step_s = _found([*[usual] * (of - 1), replace(usual, load_s=0.120)])
    assert found.straggler == of - 1
    assert found.saved_share == pytest.approx(1 - _found([usual] * of)[1] / step_s, rel=0.15)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("of", [2, 4])
def test_workers_whose_batches_were_not_timed_are_judged_by_the_waits_for_them(of: int, seed: int) -> None:
    """As in a short run, and where two loaders share a loop."""

    def found(plans: list[Plan]) -> Ranks:
        ranks, _ = simulated(plans, seed)
        return compared(of, [replace(one, watched=replace(one.watched, costs=())) for one in ranks])

    assert found([USUAL] * of).straggler is None
    assert found([*[USUAL] * (of - 1), replace(USUAL, load_s=0.120)]).straggler == of - 1


def test_a_rank_is_not_accused_of_what_the_workers_of_the_next_one_need() -> None:
    found, _ = _found([USUAL, replace(USUAL, load_s=0.115), replace(USUAL, load_s=0.120)])
    assert found.straggler is None and found.cost_share < 0.06


@pytest.mark.parametrize("straggler", [0, 1])
def test_a_small_loader_beside_a_slow_one_hides_nothing(straggler: int) -> None:
    """A rank without workers and one with them."""
    plans = [Plan(load_s=0.010, work_s=0.002, workers=0), Plan(load_s=0.010, work_s=0.002)]
    _, usual_s = simulated(plans)
    plans[straggler] = replace(plans[straggler], load_s=0.060)
    found, step_s = _found(plans)
    assert found.straggler == straggler
    assert found.saved_share == pytest.approx(1 - usual_s / step_s, rel=0.15)


def test_an_order_that_stays_counts_as_few_outcomes() -> None:
    assert independent([True] * 50) == 50  # nothing was seen to change
    assert independent([True, False] * 50) == 100
    assert independent(([True] * 20 + [False] * 20) * 5) < 10
    assert independent([False] + [True] * 99) == 100  # only the first step differs
