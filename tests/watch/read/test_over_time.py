"""Growth of memory and reads from storage, from made-up looks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pipebench.watch.launch.over_time import Seen
from pipebench.watch.read.over_time import growth_bytes_per_s, storage_bytes_per_s

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
        lambda s: 200 * MB - 5 * MB * s,
    ],
)
def test_what_levels_off_or_comes_and_goes_is_no_growth(size: Callable[[float], float]) -> None:
    assert growth_bytes_per_s(_looks(size)) == 0.0


def test_too_few_looks_say_nothing() -> None:
    assert growth_bytes_per_s(_looks(lambda s: s * MB, count=3)) is None and growth_bytes_per_s([]) is None
    assert storage_bytes_per_s([Seen(1.0, 0, 5), Seen(2.0, 0)]) is None


def test_reads_from_storage_are_a_rate() -> None:
    assert storage_bytes_per_s([Seen(1.0, 0, 10), Seen(2.0, 0), Seen(5.0, 0, 50)]) == pytest.approx(10.0)
