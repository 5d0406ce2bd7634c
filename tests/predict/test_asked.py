"""Questions about changed costs: a faster stage, another consumer."""

from __future__ import annotations

from statistics import fmean

import pytest
from made_up_costs import made

from pipebench.errors import UsageError
from pipebench.predict.asked import changed
from pipebench.results.costs import LoopCosts, Passport, StageShare
from pipebench.results.plan import Asked

STAGES = (
    StageShare("ImageFile.load", "decode", 0.5),
    StageShare("Flip", "transform", 0.25),
    StageShare("Crop", "transform", 0.25),
    StageShare("queue feeder thread", "serialise", 0.1),
)


def _asked(costs: LoopCosts, **asked: object) -> list[LoopCosts]:
    return changed(Passport(costs, STAGES, 2.0), Asked(**asked))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["ImageFile.load", "decode", "File"])
def test_a_faster_stage_takes_its_share_from_the_batch(name: str) -> None:
    (found,) = _asked(made(cpu=0.1), faster=((name, 2.0),))
    assert fmean(found.cpu_s) == pytest.approx(0.075)


def test_if_a_batch_computes_and_blocks_the_stage_may_be_either() -> None:
    """Half of 0.1 s is saved: of 0.06 s on a core and 0.04 s blocked, either 0.05 on a core, or 0.01 and 0.04."""
    found = _asked(made(cpu=0.06, blocked=0.04), faster=(("decode", 1e9),))
    assert [(fmean(one.cpu_s), fmean(one.blocked_s)) for one in found] == [
        pytest.approx((0.05, 0.0), abs=1e-6),
        pytest.approx((0.01, 0.04), abs=1e-6),
    ]


def test_two_stages_and_the_pickling() -> None:
    (found,) = _asked(made(blocked=0.1, feeder_cpu_s=0.004), faster=(("Flip", 5.0), ("serialise", 4.0)))
    assert fmean(found.blocked_s) == pytest.approx(0.08) and found.feeder_cpu_s == pytest.approx(0.001)


def test_the_loops_own_work_is_called_step() -> None:
    (found,) = _asked(made(cpu=0.1, step=0.02, step_cpu_s=0.01), faster=(("step", 4.0),))
    assert found.step_s[0] == pytest.approx(0.005) and found.step_cpu_s == pytest.approx(0.0025)


@pytest.mark.parametrize(("name", "problem"), [("transform", "2 stages are called"), ("Blur\x1b", "no stage is")])
def test_a_stage_that_is_not_one_is_refused(name: str, problem: str) -> None:
    with pytest.raises(UsageError) as raised:
        _asked(made(cpu=0.1), faster=((name, 2.0),))
    assert raised.value.problem.startswith(problem) and "\x1b" not in raised.value.problem


def test_a_consumer_and_a_faster_step_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="exclude each other"):
        _asked(made(cpu=0.1, step=0.02), consumer=100.0, faster=(("step", 4.0),))


def test_a_consumer_takes_the_place_of_the_step() -> None:
    """8 samples at 400 a second take 20 ms, of which the loop receives for 3 ms."""
    (found,) = _asked(made(cpu=0.1, step=0.5, step_cpu_s=0.5, receive_s=0.003), consumer=400.0)
    assert found.step_s == pytest.approx((0.017,)) and found.step_cpu_s == 0


def test_without_workers_the_hand_off_is_assumed() -> None:
    (found,) = _asked(made(cpu=0.1, workers=0))
    assert found.receive_s > 0 and found.feeder_cpu_s > 0
