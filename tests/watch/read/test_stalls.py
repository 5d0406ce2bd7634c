"""The period of waits: planted, and found or not found."""

from __future__ import annotations

import random

import pytest

from pipebench.watch.read.stalls import period_of, scatter


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
