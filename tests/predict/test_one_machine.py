"""Where one machine ends, for loops whose costs are made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from made_up_costs import made

from pipebench.predict.planning import plan
from pipebench.results.costs import LoopCosts, Passport
from pipebench.results.plan import Asked, OneMachine

# 8 samples a batch: 0.1 core-seconds to make it, 1 MB read and 4.8 MB handed over for each
COMPUTING = made(cpu=0.1, step=0.01, iteration_s=0.1, read_bytes=8e5, shared_bytes=4.8e6, pipe_bytes=1e3)


def _found(costs: LoopCosts = COMPUTING, cores: float = 2.0, **asked: Any) -> OneMachine:
    found = plan(Passport(costs, (), cores), Asked(**asked)).one_machine
    assert found is not None
    return found


def test_cores_are_those_of_each_device_and_of_all() -> None:
    one = _found(cores=64, consumer=800.0, devices=8)
    assert one.per_device.value == pytest.approx(10) and one.cores.needed.value == pytest.approx(80)
    assert one.fed.value == pytest.approx(6.4) and one.fed.low < 6.4 < one.fed.high
    assert one.per_device.low < 10 < one.per_device.high and one.lacking.value == pytest.approx(16)


def test_encoded_and_finished_samples_are_rates_that_were_never_checked() -> None:
    one = _found(cores=64, consumer=800.0, devices=8)
    assert one.encoded is not None and one.encoded.needed.value == pytest.approx(6400 * 1e5)
    assert one.decoded is not None and one.decoded.needed.value == pytest.approx(6400 * 600_125)
    assert not one.encoded.validated and not one.decoded.validated


def test_without_a_consumer_the_device_is_the_loop_that_never_waits() -> None:
    one = _found()
    assert one.device == pytest.approx(800) and one.devices == 1 and one.per_device.value == pytest.approx(10)


def test_moving_helps_only_where_cores_are_lacking_for_certain() -> None:
    asked: dict[str, Any] = {"consumer": 800.0, "devices": 8}
    assert _found(cores=16, **asked).moving_helps
    assert not _found(cores=80, **asked).moving_helps and not _found(cores=200, **asked).moving_helps


@pytest.mark.parametrize("path", [{"storage": 1e8}, {"network": 1e9}])
def test_moving_does_not_help_where_storage_or_network_end_too(path: dict[str, float]) -> None:
    assert not _found(cores=16, consumer=800.0, devices=8, **path).moving_helps
    assert _found(cores=16, consumer=800.0, devices=8, **{name: 100 * one for name, one in path.items()}).moving_helps


def test_moving_does_not_help_where_the_loops_own_work_takes_the_cores() -> None:
    one = _found(replace(COMPUTING, receive_s=0.05), cores=16, consumer=400.0, devices=16)
    assert one.stays.value == pytest.approx(40) and not one.moving_helps


def test_the_size_of_a_sample_is_not_known_without_workers_or_records() -> None:
    assert _found(replace(COMPUTING, workers=0)).decoded is None
    bare = _found(replace(COMPUTING, read_bytes=None, shared_bytes=None, pipe_bytes=None))
    assert bare.encoded is None and bare.decoded is None


def test_a_loop_that_has_no_work_of_its_own_has_no_end() -> None:
    assert plan(Passport(made(cpu=0.1), (), 2.0), Asked()).one_machine is None


def test_the_loop_that_never_waits_waits_for_its_device() -> None:
    """The host starts 10 ms of work, and the device does it in 80 ms."""
    one = _found(replace(COMPUTING, device_s=0.08))
    assert one.device == pytest.approx(100) and one.per_device.value == pytest.approx(1.25)
