"""Passports of a busy machine: which load the measured rate bears out, and which limit is named then."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_up_costs import made

from pipebench.predict.bounds import bounds
from pipebench.predict.load import MODEL_ERROR, borne_out, present
from pipebench.predict.loader import Setting, simulate
from pipebench.predict.planning import foreseen, plan
from pipebench.results.costs import LoopCosts, Passport
from pipebench.results.plan import Asked

COMPUTING = made(cpu=0.03, step=0.01, step_cpu_s=0.01, workers=1)
SLEEPING = made(blocked=0.1, step=0.01, workers=1)


def _taken(costs: LoopCosts, others: float, told: float, cores: float = 2.0) -> Passport:
    """A passport that was taken beside `others` threads, and tells of `told` ones."""
    quiet = Passport(costs, (), cores, others)
    return replace(quiet, costs=replace(costs, iteration_s=costs.samples / present(quiet)), others=told)


def test_a_load_that_the_measured_rate_bears_out_is_kept() -> None:
    for told in (0.0, 4.0):
        taken = _taken(COMPUTING, told, told)
        assert borne_out(taken) == taken


def test_of_more_threads_than_the_measured_rate_allows_the_most_that_it_allows_are_kept() -> None:
    found = borne_out(_taken(COMPUTING, others=4.0, told=30.0))
    assert found.others == pytest.approx(4.0, abs=0.01)


def test_no_load_is_too_large_to_be_fitted() -> None:
    assert borne_out(_taken(COMPUTING, others=4.0, told=1e18)).others == pytest.approx(4.0, abs=0.01)


def test_a_model_that_is_too_slow_without_any_load_has_none() -> None:
    slow = replace(COMPUTING, iteration_s=0.005)
    assert borne_out(Passport(slow, (), 2.0, others=5.0)).others == pytest.approx(0.0, abs=0.001)


def test_a_step_lasts_no_less_than_its_cpu_time_on_all_cores() -> None:
    """Where nothing was left of its wall time, the simulation would give it no core at all."""
    nothing = made(cpu=0.01, step=0.0, step_cpu_s=0.04, workers=2)
    found = borne_out(Passport(nothing, (), 2.0)).costs
    assert found.step_s == (0.02,) * 64
    most = plan(Passport(nothing, (), 2.0), Asked()).chosen
    assert most.samples_per_s.value <= 1.001 * bounds(nothing, Setting(8, 2, 2.0))["cores"] * nothing.samples


@pytest.mark.parametrize("workers", [0, 1])
def test_a_thread_that_others_keep_from_a_core_lacks_cores(workers: int) -> None:
    """Alone, the loop or its one worker would be the limit. Beside 6 threads on 2 cores, it has one at times."""
    quiet, busy = (
        plan(_taken(COMPUTING, load, load), Asked(workers=workers, others=load)).chosen for load in (0.0, 6.0)
    )
    assert quiet.limit == ("workers" if workers else "loop") and busy.limit == "cores"
    assert busy.limits["cores"] == pytest.approx(busy.samples_per_s.value) == min(busy.limits.values())


def test_a_thread_that_sleeps_lacks_none() -> None:
    assert [plan(_taken(SLEEPING, 6, 6), Asked(workers=one)).chosen.limit for one in (0, 1)] == ["loop", "workers"]


def test_another_load_can_be_asked_for() -> None:
    busy = _taken(COMPUTING, 6.0, 6.0)
    as_it_was, quiet, busier = (plan(busy, Asked(workers=1, others=load)).chosen for load in (None, 0.0, 20.0))
    rates = [one.samples_per_s.value for one in (busier, as_it_was, quiet)]
    assert rates == sorted(rates) and rates[2] > 2 * rates[0]
    alone = simulate(COMPUTING, Setting(1, 2, 2.0)).batches_per_s * COMPUTING.samples
    assert quiet.samples_per_s.value == pytest.approx(alone, rel=0.01)
    elsewhere = plan(busy, Asked(workers=1, cores=2.0, others=20.0)).chosen
    assert elsewhere.samples_per_s.value == pytest.approx(rates[0])


def test_what_was_fitted_is_no_check_so_the_interval_keeps_the_error_of_before() -> None:
    fitted, told = _taken(COMPUTING, 4.0, 30.0), _taken(COMPUTING, 4.0, 4.0)
    wide, narrow = (plan(one, Asked(workers=2)) for one in (fitted, told))
    assert wide.others == pytest.approx(4.0, abs=0.01) and wide.others_told == 30.0 and narrow.others_told is None
    assert wide.checks[0].error == pytest.approx(0, abs=0.01)
    assert narrow.model_error == pytest.approx(MODEL_ERROR, abs=0.01) and wide.model_error > 0.8
    one, other = (foreseen(passport, 2, 2) for passport in (fitted, told))
    assert one.speedup == pytest.approx(other.speedup, rel=0.01) and one.low < 0.5 * other.low


def test_more_workers_bring_no_more_than_the_cores_allow_however_unsure_the_simulation_is() -> None:
    """A batch takes 0.4 s of a core, and of short passes the store of batches makes the settled loop look faster."""
    computing = made(cpu=0.4, workers=2, iteration_s=0.15)
    alone = Passport(costs=computing, stages=(), cores=2.0, others=0.0, tried=())
    told = foreseen(alone, 4, 2)
    assert told.speedup == pytest.approx(1.0, rel=0.1) and told.low < 0.6 and told.high < 1.5
    assert foreseen(alone, 1, 2).high > 0.8  # fewer workers may compute faster, so nothing is cut
    sleeping = replace(alone, costs=made(blocked=0.4, workers=2, iteration_s=0.15))
    assert foreseen(sleeping, 4, 2).high > 2.0
