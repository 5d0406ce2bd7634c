"""Python loops between the model and the backward are a cause with their line. The looks are made up."""

from __future__ import annotations

from typing import Any

import pytest
from planted_runs import TRAINS, Planted, said

from pipebench.watch.read.after_model import AfterModel, after_model
from pipebench.watch.read.gather import Process, Run, ShownTime
from pipebench.watch.read.in_loop import Where
from pipebench.watch.record.lines import LoopLooks, LoopSums, ProcessStarted
from pipebench.watch.record.trial_lines import PlaceLooks

MINES = PlaceLooks(37, ["mine"], 60, 40, 1_000_000, 900_000, after=True)


def _looks(*places: PlaceLooks, forward: int = 100) -> LoopLooks:
    return LoopLooks(1, "a/train.py", 50, list(places), forward)


@pytest.mark.parametrize(
    ("places", "forward", "found"),
    [
        ([MINES], 100, AfterModel(0.6, Where("a/train.py", 37, "mine"))),
        ([MINES, MINES._replace(functions=["mine", "best"], looks=20, line=38)], 100,
         AfterModel(0.8, Where("a/train.py", 37, "mine"))),
        ([MINES._replace(functions=[], file="a/step.py")], 100, AfterModel(0.6, Where("a/step.py", 37, ""))),
        ([MINES, MINES._replace(after=False, early=True)], 60, AfterModel(0.5, Where("a/train.py", 37, "mine"))),
        ([MINES._replace(cpu_ns=100_000)], 100, None),  # it waits
        ([MINES._replace(after=False)], 100, None),  # after the backward
        ([MINES._replace(looks=9)], 19, None),  # too few
        ([MINES._replace(functions=["outer", "Miner.mine"])], 100, None),  # a function of --span
    ],
)  # fmt: skip
def test_its_share_of_forward_is_that_of_the_looks(places: Any, forward: int, found: AfterModel | None) -> None:
    spans = {"mine"} if len(places[0].functions) > 1 else ()
    run = Run([Process([ProcessStarted(1, "script", 0), _looks(*places, forward=forward)])], ShownTime(), (1,))
    assert after_model(run, 1, spans) == found


def _run(**how: Any) -> Planted:
    run = Planted()
    run.loader(**{**TRAINS, "forward": 1400, **how}, cpu=1000)
    run.worker(busy=0.1, cpu=1.0)
    return run


def test_it_is_the_first_cause_and_the_move() -> None:
    run = _run()
    run.lines.append(_looks(MINES))
    account = run.account()
    (cause,) = (one for one in account.causes if one.code == "python-loops")
    assert cause == account.causes[0] and cause.s == cause.recoverable_s == pytest.approx(0.84)
    text = said(account)
    assert text.startswith("Python loops of the script, between the model and backward, took 840 ms of the run's")
    assert (
        "Most of it: mine, called in train.py:37. Tensor operations in their place, or workers as far as they" in text
    )
    assert "could save up to 840 ms (predicted, not tried)." in text and "Nothing" not in text


def test_little_of_it_is_no_cause() -> None:
    run = _run()
    run.lines.append(_looks(MINES._replace(looks=20)))
    assert "python-loops" not in {one.code for one in run.account().causes}


def test_with_a_device_nobody_knows_what_it_saves() -> None:
    run = _run(idle=1, waits=[1] * 3)
    run.lines.append(_looks(MINES))
    (cause,) = (one for one in run.account().causes if one.code == "python-loops")
    assert cause.recoverable_s is None and cause.on_device


def test_functions_of_a_span_that_take_much_are_something() -> None:
    run = _run(spans=900)
    next(one for one in run.lines if isinstance(one, LoopSums)).spans_ns.update(
        {"mine": 800_000_000, "log": 100_000_000}
    )
    account = run.account()
    assert said(account).startswith("Functions of --span took 900 ms of the run's")
    assert "in the loop; the longest is mine." in said(account)
