"""The period of waits: planted, and found or not found."""

from __future__ import annotations

import random

import pytest
from planted_runs import TRAINS, Planted

from pipebench.results.costs import LoopCosts
from pipebench.watch.read.stalls import Period, has_reason, period_of, scatter


@pytest.mark.parametrize("period", [2, 3, 8, 17, 50])
def test_a_stall_at_every_so_many_batches(period: int) -> None:
    waits = [90_000 if number % period == period - 1 else 1_000 for number in range(256)]
    found = period_of(waits)
    assert found is not None and found.period == period
    assert found.share == pytest.approx(90_000 * (256 // period) / sum(waits), rel=0.02)


def test_scatter_hides_no_period() -> None:
    chance = random.Random(7)
    waits = [chance.randrange(500, 1_500) + (20_000 + chance.randrange(8_000)) * (n % 8 == 0) for n in range(200)]
    found = period_of(waits)
    assert found is not None and found.period == 8


def test_what_comes_at_random_or_always_has_no_period() -> None:
    chance = random.Random(7)
    assert period_of([chance.randrange(100_000) for _ in range(400)]) is None
    assert period_of([100_000 if chance.random() < 0.1 else 100 for _ in range(400)]) is None
    assert period_of([5_000] * 400) is None and period_of([0] * 400) is None and period_of([]) is None


def test_too_few_batches_have_no_period() -> None:
    assert period_of([9_000 if number % 8 == 7 else 10 for number in range(24)]) is None


def test_one_stall_is_no_period() -> None:
    assert period_of([0] * 100 + [9_000_000] + [0] * 100) is None


def test_the_scatter_of_blocks() -> None:
    """Of independent lengths it falls with the root of the block. What repeats within a block does not count."""
    chance = random.Random(3)
    lengths = [chance.expovariate(1.0) for _ in range(40_000)]
    assert scatter(lengths, 1) == pytest.approx(1.0, rel=0.05)
    assert scatter(lengths, 25) == pytest.approx(0.2, rel=0.05)
    assert scatter([4.0, 0.0, 1.0, 3.0] * 10, 2) == 0.0
    assert scatter([1.0] * 11, 4) is None and scatter([0.0] * 16, 4) is None


@pytest.mark.parametrize(
    ("made_s", "step_s", "ahead", "reason"),
    [
        ([0.02], [0.001], 2, False),  # two workers that never rest give two batches at a time
        ([0.02, 0.03], [0.001], 2, False),  # they differ by less than the loop waits
        ([0.02, 0.04], [0.001], 2, True),
        ([0.02], [0.001, 0.03], 2, True),  # an iteration that takes longer now and then
        ([0.02], [0.001], 1, True),  # a worker rests until its batch is taken
        ([], [0.001], 2, True),  # not known
    ],
)
def test_stalls_need_batches_or_iterations_that_differ(
    made_s: list[float], step_s: list[float], ahead: int, reason: bool
) -> None:
    waits = [20_000_000, 0] * 50
    made, steps = (tuple(one * (100 // len(one))) if one else () for one in (made_s, step_s))
    costs = LoopCosts(
        1, 2, ahead, 16, 0.01, tuple(0.1 * one for one in made), tuple(0.9 * one for one in made), steps, 0
    )
    assert has_reason(Period(2, 1.0), waits, costs) is reason
    assert has_reason(Period(2, 1.0), waits, None)


def test_of_few_batches_no_period_is_told() -> None:
    """They may be what is left of the start of workers: of 20 iterations that were recorded, say."""
    run = Planted()
    run.loader(**TRAINS, wait_for_worker=1000, waits=[8_000_000 if n % 2 else 1_000 for n in range(20)])
    for number in range(2):
        run.worker(number, busy=0.7)
    assert [one.code for one in run.account().causes if one.code != "training"] == ["waiting"]
