"""Answers about planted loops, on this machine and on another one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from made_up_costs import made

from pipebench.errors import UsageError
from pipebench.predict.loader import Setting, Simulated, simulate
from pipebench.predict.planning import plan
from pipebench.results.costs import LoopCosts, Passport, Tried
from pipebench.results.plan import Asked, Figure, Need

SLEEPING = made(blocked=0.1, step=0.01, iteration_s=0.1)
COMPUTING = made(cpu=0.1, iteration_s=0.1, read_bytes=8e6, shared_bytes=1e6)


def _plan(costs: LoopCosts, cores: float = 2.0, tried: tuple[Tried, ...] = (), **asked: Any) -> Any:
    return plan(Passport(costs, (), cores, tried=tried), Asked(**asked))


def test_the_ladder_ends_where_workers_no_longer_help() -> None:
    found = _plan(SLEEPING)
    assert [one.workers for one in found.predictions] == [0, 1, 2, 4, 8, 16, 32, 64]
    assert found.chosen.workers == 16 and found.chosen.samples_per_s.value == pytest.approx(800, rel=0.01)
    assert found.chosen.limit == "loop" and found.predictions[2].limit == "workers"


def test_the_ladder_has_the_present_workers_which_stay_if_no_others_bring_more() -> None:
    found = _plan(replace(COMPUTING, workers=12, iteration_s=0.1 / 12), cores=12.0)
    assert [one.workers for one in found.predictions] == [0, 1, 2, 4, 8, 12, 16, 32]
    assert found.chosen.workers == 12 and found.is_present
    many = _plan(replace(COMPUTING, workers=12, iteration_s=0.05))
    assert [one.workers for one in many.predictions] == [0, 1, 2, 4, 8, 12] and many.chosen.workers == 12
    more = _plan(replace(SLEEPING, workers=3, iteration_s=0.1 / 3))
    assert [one.workers for one in more.predictions][:5] == [0, 1, 2, 3, 4] and more.chosen.workers == 16
    elsewhere = _plan(replace(COMPUTING, workers=12, iteration_s=0.1 / 12), cores=12.0, others=0.0)
    assert elsewhere.chosen.workers == 12 and not elsewhere.is_present


def test_the_ladder_has_the_cores_and_ends_with_the_batches_of_a_pass() -> None:
    six = _plan(COMPUTING, cores=6.0)
    assert [one.workers for one in six.predictions] == [0, 1, 2, 4, 6, 8, 16] and six.chosen.workers == 6
    passes = _plan(replace(SLEEPING, turns=12))
    assert [one.workers for one in passes.predictions] == [0, 1, 2, 4, 8, 12] and passes.chosen.workers == 12
    assert [one.workers for one in _plan(replace(SLEEPING, turns=1)).predictions] == [0, 1]


def test_a_rate_that_storage_or_network_limit_was_never_checked() -> None:
    assert not _plan(COMPUTING, storage=20e6).chosen.checked and not _plan(COMPUTING, network=20e6).chosen.checked
    assert _plan(COMPUTING, storage=1e9, network=1e9).chosen.checked and _plan(COMPUTING).chosen.checked


def test_threads_of_others_are_on_the_cores_of_all_devices() -> None:
    """Eight threads want a part of 64 cores; the loader of each of 8 devices has one of them beside it."""
    alone, beside = (
        _plan(COMPUTING, cores=64, workers=8, consumer=1e6, devices=8, others=others).chosen.samples_per_s.value
        for others in (0.0, 8.0)
    )
    assert beside == pytest.approx(alone * 8 / 9, rel=0.02)


def test_workers_that_compute_end_at_the_cores() -> None:
    found = _plan(COMPUTING)
    assert found.chosen.workers == 2 and found.chosen.samples_per_s.value == pytest.approx(160, rel=0.02)
    assert _plan(COMPUTING, cores=2, workers=8).predictions[-1].limit == "cores"


def test_a_single_setting_stands_beside_the_present_one() -> None:
    found = _plan(SLEEPING, workers=4)
    assert [one.workers for one in found.predictions] == [1, 4]
    assert found.samples_per_s == pytest.approx(80)


def test_the_setting_that_was_asked_for_is_the_answer_also_where_fewer_workers_do_as_well() -> None:
    found = _plan(SLEEPING, workers=1000)
    assert found.chosen.workers == 1000 and found.gain == pytest.approx(10) and not found.is_present
    same = _plan(SLEEPING, workers=1)
    assert same.is_present and same.chosen.workers == 1 and same.gain == pytest.approx(1)


def test_a_thousand_workers_cost_few_simulations(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interval comes from fewer workers: of a thousand, one simulation takes about a second."""
    from pipebench.predict import intervals

    seen: list[int] = []

    def counting(costs: LoopCosts, setting: Setting) -> Simulated:
        seen.append(setting.workers)
        return simulate(costs, setting)

    monkeypatch.setattr(intervals, "simulate", counting)
    _plan(SLEEPING, workers=1000)
    assert seen.count(1000) <= 2 and max(one for one in seen if one != 1000) <= 128


def test_the_gain_is_of_two_predictions_so_the_error_of_the_model_is_not_in_it() -> None:
    off = replace(SLEEPING, iteration_s=0.05)  # the model is 50 % too slow
    assert _plan(off, workers=1).gain == pytest.approx(1) and _plan(off, workers=4).gain == pytest.approx(4, rel=0.02)


def test_batches_ahead_without_workers_are_refused_as_torch_does() -> None:
    with pytest.raises(UsageError, match="exclude each other"):
        _plan(SLEEPING, workers=0, prefetch_factor=4)
    assert _plan(SLEEPING, prefetch_factor=4).predictions[0].workers == 1


def test_the_present_setting_keeps_its_own_batches_ahead() -> None:
    found = _plan(SLEEPING, workers=1, prefetch_factor=8)
    assert [(one.workers, one.prefetch_factor) for one in found.predictions] == [(1, 2), (1, 8)]
    assert found.best == 1 and not found.is_present


def test_the_interval_holds_the_prediction_and_grows_with_the_error_of_the_model() -> None:
    """A trial of 4 workers gave 3×, and the model says 4×: it is 33 % too high, and every interval says so."""
    good, bad = _plan(SLEEPING, workers=2), _plan(SLEEPING, tried=(Tried(4, 2, 3.0),), workers=2)
    assert [one.error for one in bad.checks] == pytest.approx([0.0, 0.333], abs=0.02)
    narrow, wide = (one.chosen.samples_per_s for one in (good, bad))
    assert narrow.low < narrow.value < narrow.high and wide.low < 0.8 * narrow.low and wide.value == narrow.value


def test_scatter_of_batches_widens_the_interval() -> None:
    scattered = made(blocked=[0.01] * 120 + [1.0] * 8, iteration_s=0.072)
    even = made(blocked=[sum(scattered.blocked_s) / 128] * 128, iteration_s=0.072)
    wide, narrow = (_plan(one, workers=1).chosen.samples_per_s for one in (scattered, even))
    assert wide.high / wide.low > 1.5 * narrow.high / narrow.low


def test_the_present_setting_is_checked_against_what_was_measured() -> None:
    found = _plan(replace(SLEEPING, iteration_s=0.125))
    assert found.checks[0].error == pytest.approx(0.25, rel=0.01) and found.model_error > 0.2


def test_a_machine_that_feeds_its_devices() -> None:
    """8 devices of 40 samples/s take 40 batches a second: 4 core-seconds, and as many bytes."""
    asked = {"consumer": 40.0, "devices": 8}
    found = _plan(COMPUTING, cores=64, **asked, storage=900e6)
    assert found.fed is True and found.wanted == 320
    needs = {one.resource: one for one in found.needs}
    assert needs["cores"].needed.value == pytest.approx(4.0, rel=0.01) and needs["cores"].enough is True
    assert needs["workers"].needed.value == pytest.approx(0.5, rel=0.01)
    assert needs["storage"].needed.value == pytest.approx(320e6) and not needs["storage"].validated
    assert needs["shared-memory"].needed.value == 8 * 1e6 * 3 * found.chosen.workers


@pytest.mark.parametrize(
    ("limited", "first"), [({"cores": 2.0}, "cores"), ({"storage": 90e6}, "storage"), ({"network": 50e6}, "network")]
)
def test_the_resource_that_ends_first(limited: dict[str, float], first: str) -> None:
    asked: dict[str, Any] = {"consumer": 80.0, "devices": 8, "cores": 64.0, "storage": 9e9, "network": 9e9, **limited}
    found = _plan(COMPUTING, **asked)
    assert found.fed is False and found.chosen.limit == first


def test_what_the_interval_cannot_tell_is_not_told() -> None:
    found = _plan(COMPUTING, cores=8, consumer=80.0, devices=8)
    assert found.fed is None


def test_a_loop_that_makes_its_own_batches_can_feed_a_slow_device_and_needs_no_workers() -> None:
    found = _plan(COMPUTING, workers=0, consumer=0.5)
    assert found.fed is True and "workers" not in {one.resource for one in found.needs}
    assert _plan(COMPUTING, workers=0, consumer=200.0).fed is False


def test_devices_share_the_cores() -> None:
    alone = _plan(COMPUTING, cores=4, workers=8, consumer=1e6).chosen.samples_per_s.value
    shared = _plan(COMPUTING, cores=4, workers=8, consumer=1e6, devices=4).chosen.samples_per_s.value
    assert shared == pytest.approx(alone, rel=0.05)


def test_bytes_that_are_not_known_are_said_to_be_so() -> None:
    assert _plan(SLEEPING, consumer=10.0, storage=1e9).unread and not _plan(COMPUTING).unread


@pytest.mark.parametrize(("have", "enough"), [(5.0, True), (3.0, None), (1.0, False), (None, None)])
def test_enough(have: float | None, enough: bool | None) -> None:
    assert Need("cores", Figure(3, 2, 4), have).enough is enough


def test_a_consumer_takes_no_more_than_it_can_and_is_surely_fed_by_many_workers() -> None:
    """A worker makes 80 samples per second. Whether two feed 150, the error of the model leaves open."""
    close, many = (_plan(SLEEPING, workers=workers, consumer=150.0, cores=64) for workers in (2, 8))
    assert close.fed is None and close.chosen.samples_per_s.low < 0.97 * 150
    assert many.fed is True
    for found in (close, many):
        assert found.chosen.samples_per_s.high <= 150 * 1.001


UNEVEN = made(blocked=[0.5 if place % 16 == 0 else 0.002 for place in range(64)], step=0.002, iteration_s=0.033,
              workers=2)  # fmt: skip


def test_the_ladder_goes_past_workers_that_bring_nothing_where_many_bring_much() -> None:
    """Every sixteenth batch takes most of the time: few workers all stand behind it."""
    rates = {one.workers: one.samples_per_s.value for one in _plan(UNEVEN, cores=8.0).predictions}
    assert rates[2] < 1.02 * rates[1] and rates[4] < 1.04 * rates[1] and rates[64] > 3 * rates[1]


def test_workers_behind_a_slow_batch_are_the_limit_though_a_mean_batch_has_enough() -> None:
    found = _plan(UNEVEN, cores=8.0, workers=16, consumer=2500.0)
    assert found.chosen.limit == "workers" and found.fed is False
    assert next(one for one in found.needs if one.resource == "workers").enough
