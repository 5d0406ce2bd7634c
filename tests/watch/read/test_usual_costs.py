"""What a run has anyway is no cause: a small validation that hardly waits, and a start of workers that is once."""

from __future__ import annotations

import pytest
from planted_runs import TRAINS, Planted


@pytest.mark.parametrize(
    ("forward", "waited", "found"),
    [(100, 0, False), (600, 0, True), (50, 100, True)],
)
def test_validation_is_a_cause_if_it_is_large_or_waits(forward: int, waited: int, found: bool) -> None:
    run = Planted()
    run.loader(1, **TRAINS)
    run.loader(2, trains=False, forward=forward, wait_for_worker=waited)
    assert ("validation" in run.causes()) is found


@pytest.mark.parametrize(
    ("persistent", "passes", "found"),
    [(True, 1, False), (False, 1, False), (True, 2, False), (False, 2, True)],
)
def test_a_start_that_no_later_pass_repeats_is_no_cause(persistent: bool, passes: int, found: bool) -> None:
    run = Planted()
    run.loader(1, **TRAINS, passes=passes, persistent=persistent, start_up=400)
    assert ("start-up" in run.causes()) is found
