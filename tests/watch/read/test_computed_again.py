"""What a loop computes again before its backward is a cause. The iterations that were looked into are made up."""

from __future__ import annotations

from typing import Any

import pytest
from planted_runs import TRAINS, Planted, said

from pipebench.render.watch_verdict import next_move
from pipebench.results.account import Account, Cause
from pipebench.watch.read.moves_of_run import move_of_run
from pipebench.watch.record.sample_calls import FunctionCalls, SampleCalls

MS = 1_000_000


def _calls(calls: int, again: int, spent_ms: int, again_ms: int, *, given: int, gave: int = 7) -> FunctionCalls:
    place = "a/net.py", "neighbours", 3, 5, "a/net.py", 16
    return FunctionCalls(*place, calls, again, spent_ms * MS, again_ms * MS, given, gave, 64, False, False, 2)


def _account(*functions: FunctionCalls, forward: int = 1400, spent_ms: int = 100, **how: int) -> Account:
    run = Planted()
    run.loader(**{**TRAINS, "forward": forward, **how}, cpu=1000)
    run.worker(busy=0.1, cpu=1.0)
    run.lines += [SampleCalls(1, nth, spent_ms * MS, [one], 0, "iteration") for nth, one in enumerate(functions)]
    return run.account()


def _cause(account: Account) -> Cause | None:
    return next((one for one in account.causes if one.code == "computed-again"), None)


def test_a_function_that_each_layer_calls_with_the_same_is_told() -> None:
    account = _account(*(_calls(4, 3, 40, 30, given=one, gave=one) for one in (1, 2, 3)))
    cause = _cause(account)
    assert cause is not None and cause.s == cause.recoverable_s == pytest.approx(0.3 * 1.4)
    assert "Of 12 calls of neighbours (net.py:16) in 3 iterations, 9 gave what one before had given." in said(account)
    told = next_move(move_of_run(None, account.causes, 4)) or ""
    assert told.startswith("Next: call neighbours (net.py:16) once in a forward, and hand on what it gives")


def test_a_function_that_gives_the_same_in_each_iteration_is_told() -> None:
    account = _account(*(_calls(1, 0, 40, 0, given=1) for _ in range(3)))
    cause = _cause(account)
    assert cause is not None and cause.s == pytest.approx(0.4 * 1.4)
    assert "neighbours, called at net.py:16, got and gave the same in each of 3 iterations." in said(account)
    told = next_move(move_of_run(None, account.causes, 4)) or ""
    assert told.startswith("Next: keep what neighbours gives (net.py:16): call it before the loop, or where the model")


def test_on_a_device_nothing_is_told() -> None:
    how: Any = {"idle": 1, "waits": [1] * 3}
    assert _cause(_account(*(_calls(4, 3, 40, 30, given=one, gave=one) for one in (1, 2, 3)), **how)) is None


@pytest.mark.parametrize(
    "account",
    [
        pytest.param(lambda: _account(*(_calls(4, 0, 40, 0, given=one, gave=one) for one in (1, 2, 3))), id="others"),
        pytest.param(lambda: _account(*(_calls(4, 3, 40, 30, given=one, gave=one) for one in (1, 2))), id="two"),
        pytest.param(lambda: _account(*(_calls(4, 3, 8, 6, given=one, gave=one) for one in (1, 2, 3))), id="short"),
        pytest.param(
            lambda: _account(*(_calls(4, 3, 40, 30, given=one, gave=one) for one in (1, 2, 3)), forward=100),
            id="a short forward",
        ),
    ],
)
def test_else_nothing_is_told(account: object) -> None:
    assert callable(account) and _cause(account()) is None
