"""The planted bound: what is compared with what, without any run."""

from __future__ import annotations

import pytest

from pipebench.calibrate.bounds import besides, compare
from pipebench.errors import PipebenchError
from pipebench.watch.record.bound_lines import BoundPlan, BoundWindow
from pipebench.watch.record.lines import Line

MS = 1_000_000


def _noted(iterations: int, planted_ms: int, besides_ms: int) -> list[tuple[int, int]]:
    step = (planted_ms + besides_ms) * MS
    return [(planted_ms * MS, (number + 1) * step) for number in range(iterations)]


def _lines(**seconds: float) -> list[Line]:
    windows = [
        BoundWindow(0, kind, spent, samples=20, iterations=5, first=first)
        for first, (kind, spent) in zip((7, 14), seconds.items(), strict=True)
    ]
    plan = BoundPlan(
        1, 100, window=5, rounds=1, given=2, batch_bytes=1000, last_level_cache_bytes=0, swept=False,
    )  # fmt: skip
    return [plan, *windows]


def test_what_is_not_planted_is_the_rest_of_an_iteration() -> None:
    assert besides(_noted(60, 20, 1)) == pytest.approx(0.001)


def test_a_window_is_held_against_what_was_planted_in_its_own_iterations() -> None:
    noted = _noted(30, 20, 1)
    for place in range(9, 14):  # the idle window's: two before the plan, and seven before the window
        noted[place] = (30 * MS, noted[place][1])
    idle, busy = compare(noted, 0.001, _lines(bound=5 * 0.0312, bound_busy=5 * 0.021))
    assert (idle.truth_s, idle.found_s) == (pytest.approx(0.031), pytest.approx(0.0312))
    assert idle.within and idle.error_share == pytest.approx(0.0002 / 0.031)
    assert busy.within and busy.error_share == pytest.approx(0)
    off, _ = compare(noted, 0.001, _lines(bound=5 * 0.032, bound_busy=5 * 0.021))
    assert not off.within and off.part == "bound"


def test_a_run_that_was_not_measured_whole_is_refused() -> None:
    with pytest.raises(PipebenchError, match=r"^a planted bound was not measured\n"):
        compare(_noted(30, 20, 1), 0.0, [])
    with pytest.raises(PipebenchError, match=r"^a planted bound was measured only in part\n"):
        compare(_noted(30, 20, 1), 0.0, _lines(bound=0.1, bound_busy=0.1)[:2])
