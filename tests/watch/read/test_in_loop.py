"""What a loop does besides waiting and training: a device's work, or callbacks. The looks are made up."""

from __future__ import annotations

import pytest
from planted_runs import TRAINS, Planted, said

from pipebench.watch.read.gather import Process, Run, ShownTime
from pipebench.watch.read.in_loop import kind_of, told_apart
from pipebench.watch.record.lines import Line, LoopLooks, ProcessStarted
from pipebench.watch.record.trial_lines import PlaceLooks

TURNS = 50


def _place(*functions: str, looks: int = 150, turns: int = 48, cpu: float = 0.0, line: int = 9) -> PlaceLooks:
    return PlaceLooks(line, list(functions), looks, turns, 1_000_000, round(cpu * 1_000_000))


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        (_place(), "device"),  # a line of the loop, as of `loss.item()`
        (_place("Trainer.training_step"), "device"),
        (_place("accelerator_step"), "device"),
        (_place("MetricsClient.add", "MetricsClient.flush"), "callbacks"),
        (_place("Trainer.on_step_end"), "callbacks"),
        (_place("Trainer.training_step", "Trainer.log"), "callbacks"),
        (_place("save", "_save"), "callbacks"),
        (_place("logits_of", "network"), "unsure"),  # no word of either kind
        (_place(turns=10), "callbacks"),  # in every fifth iteration
        (_place("accelerator_step", turns=10), "callbacks"),
        (_place(cpu=0.9), "callbacks"),  # it computes, so it is no wait
        (_place(looks=20, turns=17), "device"),  # so short that looks miss it in most iterations
    ],
)
def test_a_place_is_told_by_its_names_and_by_how_often_it_is_reached(place: PlaceLooks, kind: str) -> None:
    assert kind_of(place, TURNS) == kind


def _looks(*places: PlaceLooks) -> list[Line]:
    return [LoopLooks(1, "train.py", TURNS // 2, list(places[:1])), LoopLooks(1, "train.py", TURNS // 2, [*places[1:]])]


def test_shares_are_those_of_the_looks() -> None:
    lines = _looks(_place(), _place("Client.report", looks=50, line=12))
    found = told_apart(Run([Process([ProcessStarted(1, "script", 0), *lines])], ShownTime(), (1,)), 1)
    assert found is not None and (found.device, found.callbacks, found.unsure) == (0.75, 0.25, 0.0)
    assert (found.file, found.line, found.function) == ("train.py", 12, "Client.report")


def test_a_few_looks_tell_nothing() -> None:
    lines: list[Line] = [ProcessStarted(1, "script", 0), LoopLooks(1, "train.py", TURNS, [_place(looks=9)])]
    assert told_apart(Run([Process(lines)], ShownTime(), (1,)), 1) is None


def test_a_devices_work_is_training_and_only_the_rest_could_be_saved() -> None:
    run = Planted()
    run.loader(**TRAINS, other=1000)
    run.lines += _looks(_place(), _place("Client.report", looks=50, line=12))
    account = run.account()
    rows = {one.code: one for one in account.causes}
    assert list(rows) == ["callbacks", "training"]
    assert rows["callbacks"].recoverable_s == pytest.approx(rows["callbacks"].s) == pytest.approx(0.25 * account_s(run))
    text = " ".join(said(account).split())
    assert "Most of it: Client.report, called in train.py:12." in text
    (other,) = (one for one in account.rows if one.code == "other")
    assert other.recoverable_s == pytest.approx(0.25 * other.s)


def account_s(run: Planted) -> float:
    return sum(one.s for one in run.account().rows if one.code == "other")
