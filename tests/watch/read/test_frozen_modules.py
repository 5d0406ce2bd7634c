"""Frozen modules whose outputs could be kept, or with gradients that nobody uses: their time. The looks are made up."""

from __future__ import annotations

from typing import Any

import pytest
from planted_runs import MS, TURNS, Planted, said

from pipebench.render import layout, watch_account, watch_verdict
from pipebench.results.account import Account, Cause
from pipebench.watch.read.gather import Process
from pipebench.watch.read.moves_of_run import move_of_run
from pipebench.watch.record.lines import FetchSums, LoopLooks, NewStage, StageName
from pipebench.watch.record.trial_lines import ModuleLooks, PlaceLooks
from pipebench.watch.record.worker_lines import OneBatch

ENCODER = ModuleLooks("encoder", "ResNet", 60)


def _looks(
    *modules: ModuleLooks, forward: int = 80, later: int = 0, places: Any = (), turns: int = 50, unused: Any = ()
) -> LoopLooks:
    return LoopLooks(1, "a/train.py", turns, list(places), forward, later, list(modules), list(unused))


def _run(*lines: LoopLooks, passes: int = 4, drew: bool = False, stage: str = "Normalize", **rows: Any) -> Account:
    """Passes of 100 iterations: 4 ms of forward in each, and 5 ms in all. The first batches of a worker are made up."""
    run = Planted()
    run.loader(passes=passes, **{"forward": 400, "backward": 80, "optimiser": 20, **rows})
    run.lines += lines
    run.worker(busy=0.1)
    begin = run.first_pass[0]
    sums = FetchSums(1, begin, begin + 1, 2, 8, single=[OneBatch(begin, MS, MS, 0), OneBatch(begin, MS, MS, 0, drew)])
    stages = [line for line in run.workers[0].lines if not isinstance(line, NewStage)]
    named = [NewStage(1, StageName("decode", "load", True)), NewStage(2, StageName("transform", stage))]
    run.workers = [Process([stages[0], *named, *stages[1:], sums])]
    return run.account()


def _told(account: Account) -> list[Cause]:
    return [one for one in account.causes if one.code == "frozen-module"]


def test_its_share_of_forward_is_that_of_the_looks_and_the_first_pass_fills() -> None:
    account = _run(_looks(ENCODER))
    (cause,) = _told(account)
    # 60 of 80 looks: 3 ms of the 4 ms of forward, in 400 iterations. The last three of four passes could be without it.
    assert cause.s == pytest.approx(1.2) and cause.recoverable_s == pytest.approx(0.9)
    assert cause.values == {
        "module": "encoder (ResNet)", "modules": 1, "turn_s": pytest.approx(0.003), "share": pytest.approx(0.6),
        "passes": 4,
    }  # fmt: skip
    assert account.causes[0] == cause and not cause.on_device
    (row,) = (one for one in account.rows if one.code == "forward")
    assert row.recoverable_s == cause.recoverable_s and row.reason == "kept-outputs"
    text = said(account)
    assert text.startswith("The forward of encoder (ResNet) took 1.20 s of the run's ")
    assert (
        ": 3.00 ms and 60 % of an iteration. Its weights were not seen to change. Outputs that are computed once and "
        "kept, for use from the second of 4 passes on, could save about 900 ms (predicted, not tried). Only if its "
        "inputs are the same in each pass: random augmentation before it forbids this."
    ) in text
    assert "is worth a change" not in text
    move = move_of_run(None, account.causes, 4)
    assert move is not None and "compute its outputs once" in (watch_verdict.next_move(move) or "")
    table = layout.text(watch_account.table(account), width=80)
    assert "less" in next(line for line in table.splitlines() if "forward and backward" in line)


def test_looks_are_added_and_the_last_line_says_what_stays() -> None:
    early = PlaceLooks(7, ["normalize"], 40, 30, 0, 0, True)
    found = _told(_run(_looks(ENCODER._replace(looks=99), forward=40), _looks(ENCODER, later=80, places=[early])))
    assert found[0].s == pytest.approx(1.6 * 60 / 240)  # forward, then later models, and work before the model
    assert _told(_run(_looks(ENCODER), _looks())) == []  # it changed at last


def test_several_modules_are_added_and_the_largest_is_named() -> None:
    account = _run(_looks(ENCODER._replace(looks=20), ModuleLooks("", "TextEncoder", 40)))
    (cause,) = _told(account)
    assert cause.values["module"] == "TextEncoder" and cause.s == pytest.approx(1.2)
    assert said(account).startswith("The forward of TextEncoder, and 1 other frozen module, took 1.20 s")


@pytest.mark.parametrize(
    ("lines", "how"),
    [
        ([_looks(ENCODER)], {"passes": 1}),
        ([_looks(ENCODER)], {"drew": True}),
        ([_looks(ENCODER)], {"stage": "RandomCrop"}),
        ([_looks(ENCODER)], {"stage": "HorizontalFlip"}),  # albumentations has random numbers of its own
        ([_looks(ENCODER, places=[PlaceLooks(7, ["augment"], 5, 5, 0, 0, True)])], {}),
        ([_looks(ENCODER._replace(looks=4))], {}),  # a small one
        ([_looks(ENCODER._replace(looks=9), forward=10)], {}),  # too few looks
        ([_looks(ENCODER, turns=7)], {}),
        ([_looks()], {}),
        ([], {}),
    ],
)
def test_nothing_is_told(lines: list[LoopLooks], how: dict[str, Any]) -> None:
    assert _told(_run(*lines, **how)) == []


def test_a_first_batch_that_is_looked_at_is_no_pass() -> None:
    """`next(iter(loader))` begins a pass, too: what is kept is complete only after the longest one."""
    run = Planted()
    run.loader(passes=2, forward=400, backward=80, optimiser=20)
    (first, second) = (line for line in run.lines if getattr(line, "trained", 0))
    first.turns = first.trained = 1
    run.lines.append(_looks(ENCODER))
    assert (first.turns, second.turns) == (1, TURNS)
    assert _told(run.account()) == []


def test_in_train_mode_it_comes_last_and_says_so() -> None:
    account = _run(_looks(ENCODER._replace(varies="BatchNorm2d")), other=100)
    assert [one.code for one in account.causes][:2] == ["callbacks", "frozen-module"]
    assert "It runs in train mode, so its BatchNorm2d gives other outputs each time: eval() ends that." in said(
        _run(_looks(ENCODER._replace(varies="BatchNorm2d")))
    )
    assert not any(one.reason == "kept-outputs" for one in account.rows)


def test_on_a_device_nothing_is_said_to_be_saved() -> None:
    account = _run(_looks(ENCODER._replace(on_device=True)), idle=10)
    (cause,) = _told(account)
    assert cause.recoverable_s is None and cause.on_device
    text = said(account)
    assert "could save" not in text.split("The forward of encoder")[1].split("Not verified")[0]
    assert "That is the host's time. Its outputs could be computed once and kept. Only if" in text
    assert "Not verified on a GPU." in text


def _wasted(account: Account) -> list[Cause]:
    return [one for one in account.causes if one.code == "unused-gradients"]


def test_gradients_that_nobody_uses_take_their_share_of_the_backward() -> None:
    account = _run(_looks(unused=[ENCODER]), passes=1, backward=400)
    (cause,) = _wasted(account)
    assert cause.s == cause.recoverable_s == pytest.approx(0.3)  # 60 of 80 looks, of 400 ms
    assert cause.values == {"module": "encoder (ResNet)", "modules": 1, "share": pytest.approx(0.75), "name": "encoder"}
    assert account.causes[0] == cause and not _told(account)
    (row,) = (one for one in account.rows if one.code == "backward")
    assert row.recoverable_s == cause.recoverable_s and row.reason == "unused-gradients"
    text = said(account)
    assert text.startswith(
        "The backward computes gradients of encoder (ResNet) that nobody uses: no optimiser holds its weights, which "
        "were not seen to change. It takes about 300 ms of the run's "
    )
    assert (
        "for them, if its share of it is that of the forward (75 %). encoder.requires_grad_(False) before the loop, or "
        "running it under torch.no_grad(), could save about 300 ms (predicted, not tried). Only if the script reads "
        "these gradients nowhere, and trains these weights at no later time."
    ) in text
    assert "outputs that are kept" not in text and "is worth a change" not in text
    move = move_of_run(None, account.causes, 4)
    assert move is not None and "requires_grad_(False) on all weights" in (watch_verdict.next_move(move) or "")
    assert "less" in layout.text(watch_account.table(account), width=80)


def test_several_modules_with_unused_gradients_are_told_with_their_model() -> None:
    parts = [ModuleLooks(f"layer{number}", "Sequential", 15, of="ResNet") for number in range(4)]
    account = _run(_looks(unused=parts), passes=1, backward=400)
    assert _wasted(account)[0].s == pytest.approx(0.3)
    text = said(account)
    assert "gradients of layer0 (Sequential) and 3 other modules of ResNet that nobody uses" in text
    assert ". requires_grad_(False) on all weights that no optimiser holds, before the loop, could save about" in text


def test_kept_outputs_of_the_same_module_are_told_in_the_same_sentence() -> None:
    """To end the gradients is right for any inputs, and no second is told twice."""
    other = ModuleLooks("text", "Bert", 20)
    account = _run(_looks(ENCODER, unused=[ENCODER], forward=90), backward=400)
    (cause,) = _wasted(account)
    assert not _told(account) and cause.values["forward_s"] == pytest.approx(0.8)
    assert cause.recoverable_s == pytest.approx(4 * 0.4 * 60 / 90)
    text = said(account)
    assert "If its inputs are the same in each pass, outputs that are kept save its forward, too: about 800 ms" in text
    assert not any(one.reason == "kept-outputs" for one in account.rows)

    account = _run(_looks(ENCODER, other, unused=[ENCODER], forward=90), backward=400)
    (kept,) = _told(account)
    assert kept.values["module"] == "text (Bert)" and kept.values["modules"] == 1
    assert kept.recoverable_s == pytest.approx(4 * 0.4 * 20 / 90 * 0.75)


@pytest.mark.parametrize("how", [{"passes": 1}, {"drew": True}, {"stage": "RandomCrop"}])
def test_kept_outputs_are_not_told_beside_them_where_inputs_may_differ(how: dict[str, Any]) -> None:
    (cause,) = _wasted(_run(_looks(ENCODER, unused=[ENCODER]), backward=400, **how))
    assert "forward_s" not in cause.values


@pytest.mark.parametrize(
    "line",
    [
        _looks(unused=[ENCODER._replace(looks=9)], forward=10),  # too few looks
        _looks(unused=[ENCODER._replace(looks=10)], forward=1000),  # a small one
        _looks(unused=[ENCODER], turns=7),
        _looks(),
    ],
)
def test_no_unused_gradients_are_told(line: LoopLooks) -> None:
    assert _wasted(_run(line, backward=400)) == []


def test_unused_gradients_on_a_device_are_told_without_a_saving() -> None:
    account = _run(_looks(unused=[ENCODER._replace(on_device=True)]), backward=400, idle=10)
    (cause,) = _wasted(account)
    assert cause.recoverable_s is None and cause.on_device
    text = said(account)
    assert "could save" not in text.split("The backward computes")[1].split("Not verified")[0]
    assert "That is the host's time. encoder.requires_grad_(False) before the loop" in text and "ends it." in text
    assert not any(one.reason == "unused-gradients" for one in account.rows)
