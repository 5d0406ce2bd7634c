"""Which ceiling bounds a task, and what is said when a row is faster than its ceiling: with planted costs."""

import pytest
from fake import Bench, FakeClock

from pipebench.lab.timing import Plan
from pipebench.results.measurement import EXCEEDED

PLAN = Plan(rounds=24, budget_s=1e9, reading_s=0.010)


def bench(noise=0.02, **costs):
    made = Bench(FakeClock(noise=noise))
    for name, cost in costs.items():
        ways = {"ceiling": "doubling", "way": name.partition("_")[2]} if name.startswith("limit") else {}
        made.variant(name, cost, **ways)
    return made


def faults(one):
    return [warning for warning in one.warnings if warning.code == EXCEEDED]


@pytest.mark.parametrize(("whole", "parts", "best"), [(2e-4, 1e-4, "parts"), (1e-4, 2e-4, "whole")])
def test_the_fastest_way_is_the_ceiling_and_the_result_says_which(whole, parts, best):
    result = bench(plain=1e-3, limit_whole=whole, limit_parts=parts).measure(PLAN)
    (plain,) = result.measurements
    assert plain.fraction_of_ceiling == pytest.approx(0.1, rel=0.02)
    assert plain.ceiling == f"limit_{best}"
    assert [(one.resource, one.way, one.bounds) for one in result.ceilings] == [
        ("doubling", "whole", best == "whole"),
        ("doubling", "parts", best == "parts"),
    ]
    (beside,) = [one.over_bound.speedup for one in result.ceilings if not one.bounds]
    assert beside == pytest.approx(0.5, rel=0.02)
    assert [one.over_bound for one in result.ceilings if one.bounds] == [None]


def test_a_ceiling_that_is_exceeded_is_at_fault_and_no_row_has_a_share_of_it():
    result = bench(plain=1e-3, quick=1e-4, limit_whole=1.13e-4, limit_parts=3e-4).measure(PLAN)
    plain, quick = result.measurements
    assert plain.fraction_of_ceiling is None and quick.fraction_of_ceiling is None
    assert quick.over_ceiling.speedup == pytest.approx(1.13, rel=0.02) and quick.over_ceiling.low > 1
    (fault,) = faults(quick)
    assert fault.problem.startswith("faster than the ceiling (limit_whole), 1.13× (")
    assert faults(plain) == []
    assert [len(faults(one)) for one in result.ceilings] == [1, 0]


def test_a_row_as_fast_as_its_ceiling_is_no_fault():
    result = bench(noise=0.1, plain=1e-3, quick=1e-4, limit_whole=1e-4).measure(PLAN)
    quick = result.measurements[1]
    assert quick.over_ceiling.low < 1 < quick.over_ceiling.high
    assert quick.fraction_of_ceiling == pytest.approx(1.0, rel=0.05)
    assert faults(quick) == []


def test_a_row_that_does_less_work_cannot_show_that_a_ceiling_is_at_fault():
    made = bench(plain=1e-3, limit_whole=2e-4)
    made.variant("lossy", 1e-4, gives_up="half of it")
    result = made.measure(PLAN)
    plain, lossy = result.measurements
    assert plain.fraction_of_ceiling == pytest.approx(0.2, rel=0.02)
    assert (lossy.over_ceiling, lossy.ceiling, faults(lossy)) == (None, None, [])


def test_a_ceiling_that_could_not_be_measured_bounds_nothing():
    made = bench(plain=1e-3, limit_whole=2e-4)
    made.variant("limit_parts", 1e-4, call=lambda given: 1 / 0, ceiling="doubling", way="parts")
    result = made.measure(PLAN)
    assert result.measurements[0].ceiling == "limit_whole"
    assert [one.bounds for one in result.ceilings] == [True, False]


def test_too_few_readings_show_no_fault():
    made = bench(plain=1e-3, quick=1e-4, limit_whole=1.13e-4)
    quick = made.measure(Plan(rounds=3, least_rounds=3, budget_s=1e9)).measurements[1]
    assert quick.over_ceiling.low > 1 and quick.over_ceiling.confidence < 0.95
    assert faults(quick) == [] and quick.fraction_of_ceiling > 1
