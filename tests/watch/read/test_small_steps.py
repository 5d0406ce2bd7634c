"""Python loops over small operations of torch in forward. The looks and the counts of lines are made up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from planted_runs import TRAINS, Planted, said

from pipebench.render.watch_verdict import next_move
from pipebench.watch.read.gather import Process, Run, ShownTime
from pipebench.watch.read.moves_of_run import move_of_run
from pipebench.watch.read.small_steps import Steps, small_steps
from pipebench.watch.record.lines import LoopLooks, ProcessStarted
from pipebench.watch.record.sample_calls import LineRun, LineRuns
from pipebench.watch.record.trial_lines import LineLooks

DECAYS = LineLooks("a/net.py", "Decay.forward", 14, "", 50)
KEEPS = LineLooks("a/net.py", "Decay.forward", 15, "", 10)
PROJECTS = LineLooks("a/net.py", "Decay.forward", 11, "", 20)


def _looks(*lines: LineLooks, forward: int = 100) -> LoopLooks:
    return LoopLooks(1, "a/train.py", 50, [], forward, forward_lines=list(lines))


def _counted(*, runs: int = 200, spent_ms: float = 10.0) -> LineRuns:
    lines = [LineRun("a/net.py", 14, runs), LineRun("a/net.py", 15, runs), LineRun("a/net.py", 11, 3)]
    return LineRuns(1, "iteration", "before", True, int(spent_ms * 1e6), lines)


def _found(*lines: LineLooks, counted: LineRuns) -> Steps | None:
    return small_steps(Run([Process([ProcessStarted(1, "script", 0), _looks(*lines), counted])], ShownTime(), (1,)), 1)


def test_the_lines_that_run_often_are_told_with_their_share():
    found = _found(DECAYS, KEEPS, PROJECTS, counted=_counted())
    assert found == Steps("a/net.py", "Decay.forward", 14, 15, 200, 60, 0.6)


@pytest.mark.parametrize(
    "counted",
    [
        _counted(runs=40),  # a network of 40 layers
        _counted(spent_ms=60),  # 0.3 ms each: what they compute takes time
        _counted(runs=8000, spent_ms=16),  # 2 µs each: Python alone
    ],
)
def test_few_or_long_operations_are_training(counted):
    assert _found(DECAYS, KEEPS, counted=counted) is None


def test_too_few_looks_tell_nothing():
    lines = [DECAYS._replace(looks=8)]
    run = Run([Process([ProcessStarted(1, "script", 0), _looks(*lines, forward=10), _counted()])], ShownTime(), (1,))
    assert small_steps(run, 1) is None


def _account(*lines: LineLooks, counted: LineRuns, **how):
    run = Planted()
    run.loader(passes=4, **{**TRAINS, **how})
    run.worker(busy=0.1)
    run.lines += [_looks(*lines), counted]
    return run.account()


def test_it_is_a_cause_and_the_next_step():
    account = _account(DECAYS, KEEPS, PROJECTS, counted=_counted())
    (cause,) = (one for one in account.causes if one.code == "many-operations")
    assert cause.s == cause.recoverable_s == pytest.approx(0.6 * 3.6)
    assert (
        "with the same share of the backward: lines of Decay.forward (net.py:14–15) run up to 200 times an iteration. "
        "Operations on all steps at once could save up to 2.16 s (predicted, not tried)." in said(account)
    )
    move = move_of_run(None, account.causes, 4)
    assert next_move(move).startswith(
        "Next: replace the loop over small operations of torch (Decay.forward, net.py:14) by operations on all steps"
    )


def test_a_small_part_of_the_loops_is_no_cause():
    account = _account(DECAYS, counted=_counted(), forward=100, backward=50, optimiser=900)
    assert "many-operations" not in {one.code for one in account.causes}


def test_python_at_work_in_the_same_lines_is_told_alone():
    """As of a list of tensors that is stacked: there, something more certain is known."""
    run = Planted()
    run.loader(passes=4, **TRAINS)
    run.worker(busy=0.1)
    run.lines += [replace(_looks(DECAYS), lines=[DECAYS._replace(calls="torch.stack")]), _counted()]
    assert {"own-lines"} == {one.code for one in run.account().causes} & {"own-lines", "many-operations"}
