"""What the backward computes again is a cause. The looks are made up."""

from __future__ import annotations

import pytest
from planted_runs import TRAINS, Planted, said

from pipebench.render.watch_verdict import next_move
from pipebench.results.account import Account
from pipebench.watch.read.moves_of_run import move_of_run
from pipebench.watch.record.lines import LoopLooks


def _account(checkpointed: int, *, looks: int = 100, **how: int) -> Account:
    run = Planted()
    run.loader(**{**TRAINS, "forward": 1400, **how}, cpu=1000)
    run.worker(busy=0.1, cpu=1.0)
    run.lines.append(LoopLooks(1, "a/train.py", 50, [], looks, checkpointed=checkpointed))
    return run.account()


def test_it_is_told_with_what_the_backward_takes_for_it() -> None:
    account = _account(80)
    (cause,) = (one for one in account.causes if one.code == "checkpointing")
    assert cause.s == cause.recoverable_s == pytest.approx(0.8 * 1.4)
    assert "80 % of forward runs under torch.utils.checkpoint, and the backward computes that again: about" in said(
        account
    )
    told = next_move(move_of_run(None, account.causes, 4)) or ""
    assert told.startswith("Next: train without torch.utils.checkpoint, if the memory suffices")


def test_on_a_device_no_saving_is_told() -> None:
    account = _account(80, idle=1, waits=[1] * 3)
    (cause,) = (one for one in account.causes if one.code == "checkpointing")
    assert cause.recoverable_s is None and cause.on_device
    assert "the backward computes that again. Forward takes 1.12 s of the" in said(account).replace("about ", "")


@pytest.mark.parametrize(("checkpointed", "how"), [(0, {}), (9, {"looks": 20}), (12, {"looks": 18}), (10, {})])
def test_little_or_too_few_looks_tell_nothing(checkpointed: int, how: dict[str, int]) -> None:
    account = _account(checkpointed, **how) if checkpointed != 10 else _account(10, forward=100)
    assert "checkpointing" not in {one.code for one in account.causes}
