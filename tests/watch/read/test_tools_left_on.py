"""A tool of torch that was left on is the first cause and the next step: all figures hold only with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from planted_runs import TRAINS, Planted, said
from render import made_up

from pipebench.render.watch_verdict import next_command, next_move
from pipebench.results.account import Cause
from pipebench.results.next_move import NextMove
from pipebench.watch.read.moves_of_run import move_of_run
from pipebench.watch.record.program_lines import LeftOn


def _account(*tools: str, **how: Any) -> Any:
    run = Planted()
    run.loader(**{**TRAINS, **how})
    run.worker(busy=0.1, cpu=1.0)
    run.lines.append(LeftOn(list(tools) or ["anomaly-detection"]))
    return run.account()


@pytest.mark.parametrize("waits", [0, 5000])
def test_it_comes_first_however_much_else_could_be_saved(waits: int) -> None:
    account = _account(wait_for_worker=waits)
    assert account.causes[0].code == "left-on" and account.causes[0].recoverable_s is None
    text = said(account)
    assert text.startswith("Anomaly detection of torch.autograd was on: it makes each step slower, and these figures")
    assert "Training took 1.00 s of the run's" in text and "so; what is saved is not known." in text
    assert "Nothing" not in text


def test_a_model_in_float64_could_take_half_of_the_time() -> None:
    account = _account("float64", wait_for_worker=1)
    (cause,) = (one for one in account.causes if one.code == "float64")
    assert cause.recoverable_s == pytest.approx(cause.s / 2)
    text = said(account)
    assert "The model computes in float64: forward and backward took" in text
    assert "half of that or less in float32, if that is precise enough, up to" in text
    assert "left on" not in text and "was on" not in text
    move = move_of_run(None, account.causes, 2.0)
    assert next_move(move).startswith("Next: let the model compute in float32, if its precision is enough")


def test_more_waiting_comes_before_it() -> None:
    account = _account("float64", wait_for_worker=5000)
    assert [one.code for one in account.causes][-2:] != ["float64"] and account.causes[0].code != "float64"


def test_the_next_step_is_to_switch_it_off() -> None:
    left_on = Cause("left-on", 1.0, values={"tools": "anomaly-detection profiler"})
    move = move_of_run(NextMove("set-num-workers", 2.0), [left_on, Cause("no-workers", 9.0, 8.0, 1)], 2.0)
    assert next_move(move) == (
        "Next: switch off anomaly detection of torch.autograd and a profiler of torch for training, and watch again."
    )
    assert next_command(replace(made_up.watched(), next_move=move), of_command=False) is None
