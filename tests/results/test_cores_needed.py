"""How many cores a consumer needs, from planted points: measured, predicted, beyond the machine, or not to be said."""

import pytest

from pipebench.results.consumers import Consumer, needed, points
from pipebench.results.loading import LoaderRow
from pipebench.results.measurement import Warning

BUSY = Warning("foreign-load", "other processes used 120 % of a core", "stop them", 1.2)


def row(workers, rate, width=0.05, kind="map", dtype="float32", core=None, **changes):
    """A row with an interval of ± `width`. `core` are its images per CPU second."""
    by_cpu = {} if core is None else {"images_per_core_s": core, "core_low": core * 0.9, "core_high": core * 1.1}
    bounds = {"images_per_s": rate, "low": rate * (1 - width), "high": rate * (1 + width), "confidence": 0.97}
    return LoaderRow(kind, dtype, workers, 16, "fork", **bounds, **by_cpu, **changes)


FOUR = points([row(1, 100.0), row(2, 200.0), row(4, 400.0)])


def need(fed, rate, cores=4.0, **interval):
    return needed(fed, Consumer("mine", rate, **interval), cores)


def test_the_points_are_those_of_the_reference_pipeline_by_cores():
    rows = [
        row(4, 390.0),
        row(0, 110.0),
        row(1, 100.0),
        row(2, 200.0, kind="webdataset"),
        row(2, 900.0, kind="ready"),
        row(2, 300.0, dtype="uint8"),
        row(8, 400.0, oversubscribed=True),
    ]
    assert [(one.cores, one.rate.median) for one in points(rows)] == [(1, 100.0), (4, 390.0)]
    assert [(one.cores, one.rate.median) for one in points(rows, stream=True)] == [(2, 200.0)]
    assert [(one.cores, one.rate.median) for one in points([row(0, 110.0), row(2, 200.0)])] == [(1, 110.0), (2, 200.0)]


@pytest.mark.parametrize("changes", [{"images_per_s": None}, {"low": 0.0}, {"high": -1.0}])
def test_figures_that_no_run_can_give_are_no_point(changes):
    from dataclasses import replace

    assert points([replace(row(1, 100.0), **changes)]) == ()


@pytest.mark.parametrize(
    ("rate", "low", "high"),
    [(50, 1, 1), (95, 1, 1), (100, 1, 2), (106, 2, 2), (180, 2, 2), (195, 2, 4), (211, 3, 4), (380, 3, 4)],
)
def test_a_rate_that_was_fed_needs_a_measured_number_of_cores(rate, low, high):
    """100 lies in the interval of one core (95 to 105), so one or two; three cores were not measured."""
    found = need(FOUR, float(rate))
    assert (found.kind, found.low, found.high, found.beyond) == ("measured", low, high, False)


def test_a_rate_above_all_points_is_predicted_with_the_error_of_the_last_one():
    found = need(FOUR, 800.0)
    assert (found.kind, found.cores, found.beyond) == ("predicted", 8.0, True)
    assert (found.low, found.high) == pytest.approx((800 / 105, 800 / 95))


@pytest.mark.parametrize(("cores", "beyond"), [(4.0, True), (8.0, None), (16.0, False), (None, None)])
def test_a_prediction_is_held_against_the_cores_of_the_machine(cores, beyond):
    assert need(FOUR, 800.0, cores).beyond is beyond


def test_the_error_of_a_measured_consumer_widens_its_need():
    found = need(FOUR, 800.0, low=700.0, high=900.0)
    assert (found.low, found.high) == pytest.approx((700 / 105, 900 / 95))
    assert need(FOUR, 180.0, low=170.0, high=220.0).high == 4


def test_where_more_cores_fed_less_nothing_is_predicted():
    fed = points([row(1, 100.0), row(2, 190.0), row(4, 120.0)])
    assert need(fed, 300.0).kind == "unreached"
    assert need(fed, 150.0) == need(points([row(1, 100.0), row(2, 190.0)]), 150.0)


def test_what_others_had_of_the_cores_is_not_laid_to_the_pipeline():
    """Two workers got 0.8 cores. A core feeds 100 images/s, so 300 images/s need 3 and not 300 / 40."""
    quiet, busy = row(2, 80.0, core=100.0), row(2, 80.0, core=100.0, warnings=(BUSY,))
    (held_up,) = points([busy])
    assert held_up.held_up and held_up.used == pytest.approx(0.8)
    assert need([held_up], 300.0).cores == pytest.approx(3.0)
    assert (need([held_up], 300.0).low, need([held_up], 300.0).high) == pytest.approx((300 / 110, 300 / 90))
    assert need(points([quiet]), 300.0).cores == pytest.approx(300 / 40)  # it waits for storage, say
    assert need([held_up], 70.0).low == 1  # one core might do on a quiet machine
    assert need([held_up], 100.0).kind == "predicted"


def test_a_busy_machine_is_not_taken_for_one_whose_cores_do_not_add_up():
    fed = points([row(1, 100.0, core=110.0, warnings=(BUSY,)), row(2, 60.0, core=100.0, warnings=(BUSY,))])
    assert need(fed, 300.0).kind == "predicted"


def test_nothing_measured_is_an_error():
    with pytest.raises(ValueError, match="no loader"):
        need((), 1.0)
