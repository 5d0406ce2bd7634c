"""Warnings are values: each names what was wrong and the remedy that would help, and no other."""

import random

import pytest

from pipebench.host.machine import Load
from pipebench.results.measurement import warnings_of


def _warned(between, noise, count=8, readings=4, seed=3):
    """The `unstable` warning for processes that differ by `between`, with readings that differ by `noise`."""
    rng = random.Random(seed)
    made = [
        [factor * rng.lognormvariate(0, noise) for _ in range(readings)]
        for factor in [rng.lognormvariate(0, between) for _ in range(count)]
    ]
    found = warnings_of([one for process in made for one in process], Load(), (), [readings] * count)
    return next((one for one in found if one.code == "unstable"), None)


def test_processes_that_agree_give_no_warning():
    assert _warned(0.01, 0.01) is None


def test_where_processes_differ_more_of_them_are_advised_and_more_readings_are_not():
    warning = _warned(0.15, 0.005)
    assert "between 8 processes" in warning.problem
    assert "processes (--rigorous), not more readings, would bring ± 10 %" in warning.remedy


def test_where_readings_differ_more_of_them_are_advised():
    warning = _warned(0.001, 0.22)
    assert warning.remedy.startswith("more readings in each process (--rigorous)")


def test_where_neither_would_be_enough_a_quieter_machine_is_advised():
    warning = _warned(0.8, 0.01)
    assert "a quieter machine" in warning.remedy and "--rigorous" not in warning.remedy


@pytest.mark.parametrize("between", [0.15, 0.8])
def test_single_readings_of_each_process_say_nothing_about_more_readings(between):
    assert "reading" not in _warned(between, 0.005, readings=1).remedy


def test_a_process_that_was_replaced_is_a_warning_with_a_remedy():
    (warning,) = warnings_of([1.0] * 6, Load(), {"process-lost"})
    assert "was killed" in warning.problem and "free memory" in warning.remedy


@pytest.mark.parametrize("counts", [(), (6,)])
def test_readings_of_one_process_are_judged_as_readings(counts):
    (warning,) = warnings_of([1.0, 2.0, 3.0, 1.5, 2.5, 1.2], Load(), (), counts)
    assert "over 6 readings" in warning.problem


@pytest.mark.parametrize(("noise", "advised"), [(0.12, True), (0.6, False)])
def test_more_readings_of_one_process_are_advised_only_where_rigorous_takes_as_many(noise, advised):
    rng = random.Random(4)
    (warning,) = warnings_of([rng.lognormvariate(0, noise) for _ in range(8)], Load(), ())
    assert ("--rigorous" in warning.remedy) == advised and "a quieter machine" in warning.remedy


def test_load_of_others_is_no_reason_to_advise_more_readings():
    """Whether more of them would help, the warning about the spread says; the two must not contradict each other."""
    found = {one.code: one.remedy for one in warnings_of([1.0, 9.0] * 5, Load(wall_s=1.0, busy_s=1.5), (), [2] * 5)}
    assert found["foreign-load"] == "stop them" and "--rigorous" not in "".join(found.values())
