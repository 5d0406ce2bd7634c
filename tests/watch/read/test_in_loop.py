"""What a loop does besides waiting and training: a device's work, or callbacks. The looks are made up."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from planted_runs import TRAINS, Planted, said

from pipebench.render.watch_verdict import next_move
from pipebench.watch.read.gather import Process, Run, ShownTime
from pipebench.watch.read.in_loop import Apart, kind_of, place_besides, told_apart
from pipebench.watch.read.moves_of_run import move_of_run
from pipebench.watch.record.lines import Line, LoopLooks, ProcessStarted
from pipebench.watch.record.trial_lines import PlaceLooks
from pipebench.watch.script.loop_looks import _AGAIN_S, OFTEN_S, RARELY_S

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
        (_place("train_step")._replace(models=100), "callbacks"),  # a model runs there once more
        (_place("train_step")._replace(models=50), "device"),
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


@pytest.mark.parametrize(("looks", "models"), [(48, 1), (24, 0), (0, 0)])
def test_a_model_that_runs_after_the_backward_is_told_with_its_place(looks: int, models: int) -> None:
    place = _place("accuracy", looks=48, line=24, cpu=0.9)._replace(models=looks)
    run = Run([Process([ProcessStarted(1, "script", 0), *_looks(_place(looks=12), place)])], ShownTime(), (1,))
    found = told_apart(run, 1)
    assert found is not None and (found.line, found.function, found.models) == (24, "accuracy", bool(models))
    assert place_besides(run, 1).get("models", 0) == models


def test_looks_that_never_followed_each_other_are_told_by_those_in_the_same_function() -> None:
    """A metric that computes is no device's work, though it is named like one."""
    alone = PlaceLooks(9, ["Quality.compute"], 50, 48, 0, 0)
    near = PlaceLooks(9, ["Quality.compute", "argsort"], 50, 48, 1_000_000, 900_000)
    lines = [ProcessStarted(1, "script", 0), *_looks(alone, near)]
    found = told_apart(Run([Process(lines)], ShownTime(), (1,)), 1)
    assert found is not None and (found.device, found.callbacks) == (0.0, 1.0)
    other = near._replace(functions=["Other.compute"])
    found = told_apart(Run([Process([ProcessStarted(1, "script", 0), *_looks(alone, other)])], ShownTime(), (1,)), 1)
    assert found is not None and (found.device, found.callbacks) == (0.5, 0.5)


def test_a_few_looks_tell_nothing() -> None:
    lines: list[Line] = [ProcessStarted(1, "script", 0), LoopLooks(1, "train.py", TURNS, [_place(looks=9)])]
    assert told_apart(Run([Process(lines)], ShownTime(), (1,)), 1) is None


@pytest.mark.parametrize(
    ("places", "told"),
    [
        ([_place("EMA.update", looks=8, turns=8, cpu=0.9), _place("EMA.update", "deepcopy", looks=6, turns=6, cpu=0.9)],
         {"file": "train.py", "line": 9, "function": "EMA.update"}),  # one function, whatever it calls
        ([_place("EMA.update", looks=8, turns=8, cpu=0.9), _place("save", looks=6, turns=6)], {}),  # by chance
        ([_place("EMA.update", looks=5, turns=5, cpu=0.9)], {}),  # too few
        ([_place(line=41, looks=3, turns=3, cpu=0.9), _place(line=42, looks=4, turns=4, cpu=0.9)],
         {"file": "train.py", "line": 42}),  # two lines of the loop itself
        ([_place(looks=14, turns=50)], {}),  # maybe a device's work
    ],
)  # fmt: skip
def test_nearly_all_of_few_looks_tell_a_place_and_no_shares(places: list[PlaceLooks], told: dict[str, object]) -> None:
    run = Planted()
    run.loader(**TRAINS, other=1000)
    run.lines += _looks(*places)
    (found,) = (one for one in run.account().causes if one.code == "callbacks")
    assert {name: found.values[name] for name in ("file", "line", "function") if name in found.values} == told
    assert found.recoverable_s == pytest.approx(1.0)


def test_most_of_the_work_is_that_of_one_function_with_all_that_it_calls() -> None:
    apart = [_place("EMA.update", one, looks=30, cpu=0.9) for one in ("deepcopy", "mul", "add")]
    lines = [ProcessStarted(1, "script", 0), *_looks(*apart, _place("save", looks=40, line=12, cpu=0.9))]
    found = told_apart(Run([Process(lines)], ShownTime(), (1,)), 1)
    assert found is not None and (found.line, found.function, found.less) == (9, "EMA.update", False)


def test_below_a_function_that_only_hands_on_the_one_that_works_is_named() -> None:
    """Not those of a library below it, and not where none has half of the work."""
    run = Planted()
    run.loader(**TRAINS, other=1000)
    ways = (("call", "MeanIoU.end", "MeanIoU.compute", "mean"), ("call", "MeanIoU.end"), ("call", "Printer.end"))
    counted = zip(ways, (90, 20, 40), strict=True)
    looks = [_place(*way, looks=count, cpu=0.9)._replace(own=min(3, len(way))) for way, count in counted]
    run.lines += _looks(*looks)
    told = said(run.account())
    assert "Most of it: MeanIoU.compute, by call in train.py:9 (about 600 ms, by stack samples)." in told
    run.lines[-2:] = _looks(*(one._replace(looks=50) for one in looks[1:]))
    assert "Most of it: MeanIoU.end, by call in train.py:9 (about 640 ms, by stack samples)." in said(run.account())
    run.lines[-2:] = _looks(*(_place("call", name, looks=30, cpu=0.9)._replace(own=2) for name in "abcd"))
    assert "Most of it: call, called in train.py:9." in said(run.account())


def test_less_than_half_of_the_work_is_not_most_of_it() -> None:
    run = Planted()
    run.loader(**TRAINS, other=1000)
    run.lines += _looks(*(_place(one, looks=looks, cpu=0.9) for one, looks in (("a", 40), ("b", 35), ("c", 30))))
    told = said(run.account())
    assert "The largest part of it: a, called in train.py:9 (about 381 ms, by stack samples)." in told
    assert "). Then b, called in train.py:9 (about 333 ms)." in told


def test_where_no_device_trains_waits_are_no_devices_work() -> None:
    """The loop sleeps in one line, and waits for a process in another one that it calls in each iteration."""
    run = Planted()
    run.loader(**TRAINS, other=1000)
    joins, sleeps = _place("BaseProcess.join", "Popen.wait", line=35, looks=90), _place(line=31, looks=60)
    run.lines.append(LoopLooks(1, "train.py", TURNS, [joins, sleeps], on_host=True))
    account = run.account()
    (found,) = (one for one in account.causes if one.code == "callbacks")
    assert (found.recoverable_s, found.unsure) == (pytest.approx(1.0), False)
    assert not [one for one in account.causes if "device_s" in one.values]
    told = said(account)
    assert "besides training (callbacks, logging, waits) took 1.00 s" in told
    assert (
        "BaseProcess.join, called in train.py:35 (about 600 ms, by stack samples). Then train.py:31 (about 400 ms)."
        in told
    )
    move = move_of_run(None, account.causes, 2)
    assert move is not None and (move.took_s, move.part_s) == (pytest.approx(1.0), pytest.approx(0.6))
    assert "Now it takes about 600 ms of the run (all such work: 1.00 s)" in str(next_move(move))
    looks = next(one for one in run.lines if isinstance(one, LoopLooks))
    run.lines[run.lines.index(looks)] = replace(looks, on_host=False)
    assert "may be a wait for a device" in said(run.account())


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


@pytest.mark.parametrize(
    ("busy", "waited_ms", "saved_s"), [(0.3, 0, 1.0), (0.6, 0, 0.8), (1.0, 0, 0.0), (1.0, 500, 1.0)]
)
def test_a_loop_with_less_to_do_waits_for_its_busy_workers_instead(busy, waited_ms, saved_s) -> None:
    """Two workers make batches for `busy` of the time, without the wait for a core: the loop takes 2 s in all."""
    run = Planted()
    run.loader(**TRAINS, other=1000)
    for number in range(2):
        run.worker(number, busy=busy, cpu=0.4, core_wait_ns=waited_ms * 1_000_000)
    (other,) = (one for one in run.account().rows if one.code == "other")
    assert other.recoverable_s == pytest.approx(saved_s, rel=0.01, abs=0.01)
    assert other.reason == "off-the-path"


@pytest.mark.parametrize(("busy", "saved_s"), [(0.95, [0.1]), (1.0, [])])
def test_callbacks_whose_place_is_known_save_no_more_than_busy_workers_allow(busy, saved_s) -> None:
    run = Planted()
    run.loader(**TRAINS, other=1000)
    run.worker(busy=busy)
    run.lines += _looks(_place("Client.report", line=12))
    found = [one.recoverable_s for one in run.account().causes if one.code == "callbacks"]
    assert found == pytest.approx(saved_s, rel=0.02)


@pytest.mark.parametrize(
    ("besides_ms", "busy", "place", "s", "saved_s"),
    [
        (800, 0.5, "Client.report, called in train.py:12", 1.0, 0.8),  # the device idles: the loop waits for none
        (800, 0.9, "Client.report, called in train.py:12", 1.0, 0.2),  # but then the workers hold it up
        (5000, 0.5, "Client.report, called in train.py:12", 1.0, 1.0),
        (300, 0.5, "save, called in train.py:15", 0.25, 0.25),  # most of it may be a wait: all that trains is
        (200, 0.5, "save, called in train.py:15", 0.25, 0.2),
    ],
)
def test_on_a_device_no_more_is_saved_than_it_idles_in_other_work(besides_ms, busy, place, s, saved_s) -> None:
    run = Planted()
    run.loader(**TRAINS, other=1000, idle=0, besides=besides_ms)
    run.worker(busy=busy)
    mostly = "Client.report" if besides_ms >= 500 else "Trainer.training_step"
    run.lines += _looks(_place(mostly, line=12, cpu=0.9), _place("save", looks=50, line=15))  # a wait may need a core
    account = run.account()
    (found,) = (one for one in account.causes if one.code == "callbacks")
    assert found.s == pytest.approx(s) and found.recoverable_s == pytest.approx(saved_s, rel=0.01)
    assert found.on_device and not found.unsure
    text = said(account)
    then = (
        " (about 750 ms, by stack samples). Then save, called in train.py:15 (about 250 ms)"
        if besides_ms >= 500
        else ""
    )
    assert f"Most of it: {place}{then}. Meanwhile the device had no training to do for" in text
    assert "(predicted, not tried). Not verified on a GPU." in text
    (other,) = (one for one in account.rows if one.code == "other")
    assert other.recoverable_s == pytest.approx(saved_s, rel=0.01) and other.on_device


@pytest.mark.parametrize("looks", [True, False])
def test_work_beside_a_device_that_trains_is_no_cause(looks: bool) -> None:
    run = Planted()
    run.loader(**TRAINS, other=1000, idle=0, besides=20)
    if looks:
        run.lines += _looks(_place("Client.report", line=12))
    assert "callbacks" not in run.causes()


def test_where_looks_are_too_few_the_device_tells_what_could_be_saved() -> None:
    run = Planted()
    run.loader(**TRAINS, other=1000, idle=0, besides=400)
    found = run.causes()["callbacks"]
    assert (found.s, found.recoverable_s, found.unsure) == (1.0, pytest.approx(0.4), False)
    assert found.values == {"idle_s": pytest.approx(0.4)}


def account_s(run: Planted) -> float:
    return sum(one.s for one in run.account().rows if one.code == "other")


# A loop of 65 ms: the milliseconds of an iteration, what is called, whether it uses a core, and in which iterations.
TIMELINE = (
    (20, None, False, 1),  # it waits for a batch, or trains: no look counts
    (25, (), False, 1),  # `loss.item()`
    (8, ("Meter.step",), True, 1),  # named like training, and computes
    (120, ("Trainer.save",), False, 10),
)


def _looked(each_s: float, again_s: float | None, for_s: float) -> Apart:
    """What looks say of this loop in so many seconds: `each_s` apart on average, and maybe each with a second one."""
    chance, looks, at = random.Random(5), list[tuple[float, bool]](), 0.0
    while (at := at + each_s * (0.5 + chance.random())) < for_s:
        looks += [(at, True)] if again_s is None else [(at, True), (at + again_s, False)]
        at += again_s or 0.0
    spans, now, turn = list[tuple[float, float, int, int]](), 0.0, 0
    while now < for_s + 1:
        for number, (length, *_, period) in enumerate(TIMELINE):
            if turn % period == 0:
                spans.append((now, now := now + length / 1000, turn, number))
        turn += 1
    places: dict[int, PlaceLooks] = {}
    last, before = dict[int, int](), (0.0, -1, -1)
    for at, counts in looks:
        _, _, turn, number = next(one for one in spans if one[0] <= at < one[1])
        _, functions, on_core, _ = TIMELINE[number]
        if functions is not None:
            one = places.setdefault(number, PlaceLooks(number, list(functions), 0, 0, 0, 0))
            spent = int(1e9 * (at - before[0])) if before[1:] == (turn, number) else 0
            fresh = counts and last.get(number) != turn
            places[number] = one._replace(
                looks=one.looks + counts, turns=one.turns + fresh, ns=one.ns + spent,
                cpu_ns=one.cpu_ns + spent * on_core,
            )  # fmt: skip
            last[number] = turn if counts else last.get(number, -1)
        before = at, turn, number
    line = LoopLooks(1, "train.py", sum(one[3] == 0 for one in spans if one[0] < for_s), list(places.values()))
    found = told_apart(Run([Process([ProcessStarted(1, "script", 0), line])], ShownTime(), (1,)), 1)
    assert found is not None
    return found


def test_rare_looks_tell_the_same_as_frequent_ones() -> None:
    """`advise` looks often for a short time, and `watch` rarely for the whole run."""
    often, rarely = _looked(OFTEN_S, None, 10.0), _looked(RARELY_S, _AGAIN_S, 60.0)
    for found in (often, rarely):
        assert found.device == pytest.approx(25 / 45, abs=0.08) and found.unsure == 0.0
        assert found.function == "Trainer.save" and found.callbacks == pytest.approx(20 / 45, abs=0.08)


@pytest.mark.parametrize(("own", "called", "function"), [(60, 90, "save"), (90, 60, "")])
def test_what_a_line_does_itself_and_what_it_calls_are_one_place(own: int, called: int, function: str) -> None:
    """As of `torch.save(...)`, some of which has no frame of Python."""
    lines = _looks(_place(looks=own, turns=10), _place("save", "_save", looks=called, turns=10))
    found = told_apart(Run([Process([ProcessStarted(1, "script", 0), *lines])], ShownTime(), (1,)), 1)
    assert found is not None and (found.line, found.part, found.second) == (9, 1.0, None)
    assert function in (found.function, found.by) and not found.less
    other = _looks(_place(looks=own, turns=10), _place("save", looks=called, turns=10, line=12))
    apart = told_apart(Run([Process([ProcessStarted(1, "script", 0), *other])], ShownTime(), (1,)), 1)
    assert apart is not None and apart.second is not None and apart.second.where.line != apart.line
