"""A short function is timed at first only. Its row would be a part of it: what it took is in the row around it."""

from __future__ import annotations

import pytest

from pipebench.watch.read.each_loader import stage_results
from pipebench.watch.read.gather import Process, Run, ShownTime
from pipebench.watch.record.lines import FetchSums, NewStage, ProcessStarted, StageName

NAMES = {
    0: StageName("getitem", "fetch"),
    1: StageName("function", "Photos.load"),
    2: StageName("function", "check"),
    3: StageName("function", "Photos.twice"),
}


def _rows(left: list[dict[int, int]]) -> dict[str, tuple[float, float | None]]:
    """The nanoseconds of each row, and the share with what is inside. A line of sums for each of `left`."""
    sums = [
        FetchSums(
            1,
            nth,
            nth + 1,
            batches=1,
            samples=4,
            busy_ns=100,
            stages_ns={0: 10, 1: 60, 2: 20, 3: 10},
            whole_ns={1: 80, 2: 20, 3: 10},
            left=one,
        )
        for nth, one in enumerate(left)
    ]
    process = Process([ProcessStarted(1, "script", 0), *(NewStage(*one) for one in NAMES.items()), *sums])
    stages = stage_results(Run([process], ShownTime(), (1,)), 1)
    return {one.name: (one.exclusive_s_per_sample * 4 * len(left) * 1e9, one.whole_share) for one in stages}


def test_all_rows_while_all_are_timed() -> None:
    found = _rows([{}, {}])
    assert found["check"] == (pytest.approx(40), pytest.approx(0.2)) and len(found) == 4


def test_the_time_of_one_that_is_left_is_where_it_was_called() -> None:
    """Also what it took before."""
    found = _rows([{}, {2: 1}])
    assert found["Photos.load"] == (pytest.approx(160), pytest.approx(0.8)) and "check" not in found
    assert sum(spent for spent, _ in found.values()) == pytest.approx(200)


def test_one_that_is_left_inside_another_that_is() -> None:
    found = _rows([{2: 3}, {3: 0}])
    assert found["fetch"][0] == pytest.approx(80) and found.keys() == {"fetch", "Photos.load"}


def test_two_that_call_each_other() -> None:
    found = _rows([{2: 3, 3: 2}])
    assert sum(spent for spent, _ in found.values()) == pytest.approx(100)
