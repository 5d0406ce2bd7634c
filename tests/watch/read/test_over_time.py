"""Growth of memory and reads from storage, from made-up looks."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from pipebench.watch.launch.over_time import Seen
from pipebench.watch.read.over_time import growth_bytes_per_s, growth_with_interval, storage_bytes_per_s

MB = 1_000_000


def _looks(size: Callable[[float], float], count: int = 20) -> list[Seen]:
    return [Seen(0.5 * one, int(size(0.5 * one))) for one in range(count)]


def test_steady_growth_is_found_after_the_start() -> None:
    assert growth_bytes_per_s(_looks(lambda s: 100 * MB + 3 * MB * s)) == pytest.approx(3 * MB)
    begun = _looks(lambda s: 100 * MB + min(s, 1.0) * 300 * MB + 3 * MB * s)
    assert growth_bytes_per_s(begun) == pytest.approx(3 * MB, rel=0.01)


@pytest.mark.parametrize(
    "size",
    [
        lambda s: 100 * MB,
        lambda s: 100 * MB + 50 * MB * (s % 1.0),  # batches come and go
        lambda s: 100 * MB + min(60 * MB, 15 * MB * s),  # a cache is full after 4 s
        lambda s: 100 * MB + 0.1 * MB * s,  # what an allocator keeps
        lambda s: 390 * MB + 0.6 * MB * min(s, 6.5),  # what recording takes while it begins
        lambda s: 200 * MB - 5 * MB * s,
    ],
)
def test_what_levels_off_or_comes_and_goes_is_no_growth(size: Callable[[float], float]) -> None:
    assert growth_bytes_per_s(_looks(size)) == 0.0


def test_growth_of_a_few_looks_may_be_chance() -> None:
    """A line explains 88 % of their scatter; of as many looks as that, it does so by chance, too."""
    sizes = (0, 0, 13, 12, 25)
    assert growth_bytes_per_s([Seen(float(at), 100 * MB + one * MB) for at, one in enumerate(sizes)]) == 0.0


def _wall(begin_s: float, end_s: float) -> float:
    return end_s - begin_s


def test_too_few_looks_say_nothing() -> None:
    assert growth_bytes_per_s(_looks(lambda s: s * MB, count=3)) is None and growth_bytes_per_s([]) is None
    assert storage_bytes_per_s([Seen(1.0, 0, 5), Seen(2.0, 0)], _wall) is None


def test_reads_from_storage_are_a_rate() -> None:
    assert storage_bytes_per_s([Seen(1.0, 0, 10), Seen(2.0, 0), Seen(5.0, 0, 50)], _wall) == pytest.approx(10.0)


def test_the_interval_of_growth_holds_the_truth_as_often_as_it_says() -> None:
    """Memory comes and goes with batches: neighbouring looks are alike, and the truth is 3 MB a second."""
    held, runs, chance = 0, 400, random.Random(1)
    for _ in range(runs):
        level, looks = 0.0, []
        for one in range(96):
            level = 0.5 * level + chance.gauss(0, 5 * MB)
            looks.append(Seen(float(one), int(100 * MB + 3 * MB * one + level)))
        growth = growth_with_interval(looks)
        assert growth is not None and growth.low < growth.per_s < growth.high
        held += growth.low <= 3 * MB <= growth.high
    assert 0.92 <= held / runs <= 0.97


def test_growth_that_levels_off_is_told_by_a_wide_interval() -> None:
    steady = growth_with_interval(_looks(lambda s: 100 * MB + 3 * MB * s, 64))
    full = growth_with_interval(_looks(lambda s: 100 * MB + min(60 * MB, 4 * MB * s), 64))
    assert steady is not None and steady.low == pytest.approx(steady.high) == pytest.approx(3 * MB)
    assert full is not None and full.low < 0.7 * full.per_s and full.high > 1.3 * full.per_s
    assert growth_with_interval(_looks(lambda s: s, 14)) is None
    assert growth_with_interval([Seen(1.0, 5)] * 64) is None
