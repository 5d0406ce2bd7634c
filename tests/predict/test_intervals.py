"""Intervals of predictions where the records cannot tell costs apart."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_up_costs import made

from pipebench.predict.intervals import expected, predicted
from pipebench.predict.loader import Setting, simulate

ALONE, ONE = Setting(0, 2, 2.0), Setting(1, 2, 2.0)
MANY_TENSORS = replace(
    made(cpu=0.004, blocked=0.014, step=0.012, iteration_s=0.05), step_cpu_s=0.012, receive_s=0.01, feeder_cpu_s=0.014
)
"""A worker that waits for the lock while 140 tensors are pickled, and a loop that gives them back in its step."""


def test_without_workers_the_interval_holds_both_what_was_recorded_and_what_only_a_hand_off_costs() -> None:
    most, least = 1 / (0.004 + 0.014 + 0.012), 1 / (0.004 + 0.006)
    found = predicted([MANY_TENSORS], ALONE, 0.01)
    assert simulate(MANY_TENSORS, ALONE).batches_per_s == pytest.approx(most)
    assert found.low < most < found.value < least < found.high
    assert found.value == pytest.approx((most * least) ** 0.5) == expected([MANY_TENSORS], ALONE)


def test_with_workers_and_of_a_loop_that_has_none_there_is_one_prediction() -> None:
    none = replace(MANY_TENSORS, workers=0)
    for costs, setting in ((MANY_TENSORS, ONE), (none, ALONE)):
        assert expected([costs], setting) == pytest.approx(simulate(costs, setting).batches_per_s)


def test_where_receiving_takes_longer_than_the_step_only_the_least_counts() -> None:
    found = predicted([replace(MANY_TENSORS, receive_s=0.02)], ALONE, 0.01)
    assert found.low < 1 / (0.004 + 0.006) < found.high and found.value == pytest.approx(1 / (0.004 + 0.006))
