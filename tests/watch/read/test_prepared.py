"""Work on batches in the loop itself, before the model, is told from forward. The looks are made up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from made_up_costs import made
from made_up_loop import loader, result
from planted_runs import TRAINS, Planted, said

from pipebench.render.watch_causes import SENTENCES
from pipebench.render.watch_verdict import next_move
from pipebench.results.account import Cause
from pipebench.results.watched import PhaseResult, as_clocked
from pipebench.watch.read.gather import Process, Run, ShownTime
from pipebench.watch.read.in_loop import Part, Where
from pipebench.watch.read.moves_of_run import move_of_run
from pipebench.watch.read.prepared import Idle, Moved, Prepared, idle_of, moved, prepared
from pipebench.watch.record.lines import LoopLooks, ProcessStarted
from pipebench.watch.record.trial_lines import LineLooks, PlaceLooks
from pipebench.watch.record.worker_lines import Content

AUGMENTS = PlaceLooks(62, ["augment"], 60, 40, 1_000_000, 900_000, True)


def _looks(*places: PlaceLooks, forward: int = 40, loader: int = 1) -> LoopLooks:
    return LoopLooks(loader, "a/train.py", 50, list(places), forward)


def _run(*lines: LoopLooks) -> Run:
    return Run([Process([ProcessStarted(1, "script", 0), *lines])], ShownTime(), (1,))


@pytest.mark.parametrize(
    ("places", "forward", "found"),
    [
        ([AUGMENTS], 40, Prepared(0.6, Where("a/train.py", 62, "augment"))),
        ([AUGMENTS, AUGMENTS._replace(functions=["stack"], looks=20, line=63)], 20,
         Prepared(0.8, Where("a/train.py", 62, "augment"), False, 0.75, Part(Where("a/train.py", 63, "stack"), 0.25))),
        ([AUGMENTS._replace(functions=[])], 40, Prepared(0.6, Where("a/train.py", 62, ""))),  # in the loop's own line
        ([AUGMENTS._replace(file="a/step.py")], 40, Prepared(0.6, Where("a/step.py", 62, "augment"))),
        ([AUGMENTS._replace(cpu_ns=100_000)], 40, None),  # it waits, as for a copy to a device
        ([AUGMENTS._replace(early=False)], 40, None),  # after the backward: callbacks
        ([AUGMENTS._replace(looks=9)], 9, None),  # too few
        ([AUGMENTS._replace(functions=["Meter.log_step"])], 40, None),  # named like logging
        ([AUGMENTS._replace(functions=["VAE.loss"])], 40, None),  # like training
        ([AUGMENTS._replace(functions=["VAE.prepare"])], 40, Prepared(0.6, Where("a/train.py", 62, "VAE.prepare"))),
        ([AUGMENTS._replace(functions=["log_mel"])], 40, Prepared(0.6, Where("a/train.py", 62, "log_mel"))),
    ],
)  # fmt: skip
def test_its_share_of_forward_is_that_of_the_looks(places, forward: int, found: Prepared | None) -> None:
    assert prepared(_run(_looks(*places, forward=forward)), 1) == found


@pytest.mark.parametrize(
    ("workers", "busy", "cores", "most", "saved", "with_workers"),
    [
        (2, 0.1, 0.5, 2, 0.4, 2),  # all of it: the workers and the cores have room
        (1, 0.1, 0.5, 1, 0.4, 1),  # one worker needs 0.1 + 0.4 of the second
        (1, 0.4, 0.5, 1, 0.2, 1),  # and here 0.4 + 0.4
        (1, 0.4, 0.5, 2, 0.4, 2),  # a second one shares it
        (1, 0.4, 0.25, 4, 0.25, 2),  # the cores have no more room, and more workers bring no more
        (2, 0.1, 0.2, 2, 0.2, 2),
        (2, 1.0, 0.5, 2, None, 0),
        (0, 0.0, 0.5, 2, 0.4, 1),
        (0, 0.5, 0.5, 2, 0.4, 2),  # one worker makes batches for half of the time, and needs 0.4 more
    ],
)
def test_workers_take_over_no_more_than_they_and_the_cores_have_room_for(
    workers: int, busy: float, cores: float, most: int, saved: float | None, with_workers: int
) -> None:
    found = moved(0.4, 1.0, Idle(workers, busy, cores, most))
    assert found == (saved if saved is None else Moved(pytest.approx(saved), with_workers))


def test_work_of_many_threads_takes_a_worker_longer() -> None:
    """Eight cores work for 0.4 s of the loop: as long as 3.2 s of one."""
    idle = Idle(1, 0.1, 0.5, 16, 8.0)
    assert moved(0.4, 1.0, idle) == Moved(pytest.approx(0.4), 6)  # 0.54 s each, and 0.017 s of their own
    assert moved(0.4, 1.0, idle._replace(most=2)) is None


def test_it_is_a_row_a_phase_and_a_cause_with_its_line() -> None:
    run = Planted()
    run.loader(**{**TRAINS, "forward": 1400}, cpu=1000)
    run.worker(busy=0.1, cpu=1.0)
    run.lines.append(_looks(AUGMENTS))
    account = run.account()
    rows = {one.code: one for one in account.rows}
    assert rows["prepare"].s == pytest.approx(0.84) and rows["forward"].s == pytest.approx(0.56)
    (cause,) = (one for one in account.causes if one.code == "prepare")
    assert cause.recoverable_s == rows["prepare"].recoverable_s and rows["prepare"].reason == "in-workers"
    assert cause.recoverable_s == pytest.approx(0.84)
    text = said(account)
    assert "Most of it: augment, called in train.py:62. Doing it in the workers (in the dataset, or in" in text


def test_a_loop_that_counts_its_batches_in_each_step_is_told_to_ask_once() -> None:
    run = Planted()
    run.loader(**{**TRAINS, "forward": 1400}, cpu=1000)
    run.worker(busy=0.1, cpu=1.0)
    counts = ["DataLoader.__len__", "ByLength.__len__", "ByLength._batches"]
    run.lines.append(_looks(AUGMENTS._replace(functions=counts)))
    account = run.account()
    (cause,) = (one for one in account.causes if one.code == "prepare")
    assert cause.recoverable_s == pytest.approx(0.84)
    text = said(account)
    assert text.startswith("The loop asks how long its loader is in each iteration (DataLoader.__len__, called in tr")
    assert "Asking for it once, before the loop, could save about 840 ms" in text
    told = next_move(move_of_run(None, [cause], 2.0)) or ""
    assert told.startswith("Next: ask for len() of the loader once, before the loop (DataLoader.__len__, called in")


@pytest.mark.parametrize(("cores", "saved"), [(1, None), (2, 0.84)])
def test_without_workers_it_is_named_and_what_they_would_save_if_there_are_cores(cores: int, saved: Any) -> None:
    run = Planted()
    run.loader(**{**TRAINS, "forward": 1400}, workers=0, cpu=1000)
    run.lines.append(_looks(AUGMENTS))
    account = run.account(cores)
    (cause,) = (one for one in account.causes if one.code == "prepare")
    assert cause.recoverable_s == (saved and pytest.approx(saved))
    assert ("or in collate_fn), with num_workers=1, could save" in said(account)) is bool(saved)


@pytest.mark.parametrize(
    ("shards", "turns", "most"), [(None, None, 16), (3, None, 3), (0, None, 16), (1, None, 2), (40, 5, 5)]
)
def test_no_more_workers_are_named_for_it_than_have_a_shard_or_a_batch(
    shards: int | None, turns: int | None, most: int
) -> None:
    """Two are there already. Eight cores work for 0.4 s of the loop: of one worker, that is 3.2 s."""
    costs = replace(made(cpu=0.01, workers=2), turns=turns)
    idle = idle_of(result(loader(shards=shards, script_cores=8.0), cores=16.0, workers=(), costs=(costs,)))[1]
    found = moved(0.4, 1.0, idle)
    assert idle.most == most and (found is None or found.workers <= most)


def test_in_a_loop_without_a_loader_workers_of_one_could_make_the_batches() -> None:
    run = Planted()
    run.loader(0, **{**TRAINS, "forward": 1400}, workers=0, cpu=1000)
    run.lines.append(_looks(AUGMENTS._replace(functions=["get_batch"]), loader=0))
    account = run.account(2)
    rows = {one.code: one.s for one in account.rows}
    assert rows["prepare"] == pytest.approx(0.84) and rows["before-backward"] == pytest.approx(0.56)
    text = said(account)
    assert "Most of it: get_batch, called in train.py:62. Making it cheaper could save up to 840 ms; making" in text
    assert (
        "batches in the workers of a DataLoader (num_workers=1), beside the training, about 840 ms (predicted" in text
    )
    (cause,) = (one for one in account.causes if one.code == "prepare")
    assert cause.recoverable_s == cause.s
    told = next_move(move_of_run(None, account.causes, 2)) or ""
    assert told.startswith("Next: make batches at less cost (get_batch, train.py:62). Now it takes 840 ms of the run.")
    assert told.endswith("Or make batches in the workers of a DataLoader (num_workers=1), beside the training.")


def test_of_an_older_report_workers_of_a_loader_save_what_is_known() -> None:
    """There, it had no value of its own, and making batches cheaper was not told apart."""
    cause = Cause("prepare", 3.0, 2.0, 0, {"no_loader": 1, "workers": 0, "more_workers": 1})
    assert SENTENCES[cause.code](cause, cause.values, "3.00 s").endswith(
        " Making it cheaper could save up to 3.00 s; making batches in the workers of a DataLoader (num_workers=1), "
        "beside the training, about 2.00 s (predicted, not tried)."
    )


def test_without_a_free_core_only_cheaper_batches_save_much_of_a_loop_without_a_loader() -> None:
    run = Planted()
    run.loader(0, **{**TRAINS, "forward": 1400}, workers=0, cpu=1000)
    run.lines.append(_looks(AUGMENTS._replace(functions=["get_batch"]), loader=0))
    account = run.account(1)
    (cause,) = (one for one in account.causes if one.code == "prepare")
    assert cause.recoverable_s == cause.s and cause.values["workers_s"] == 0.0
    assert "Making it cheaper could save up to 840 ms (predicted, not tried)." in said(account)
    assert "workers" not in (next_move(move_of_run(None, account.causes, 1)) or "")


@pytest.mark.parametrize("file", ["", "a/step.py"])
def test_after_the_last_step_of_a_loop_without_a_loader_it_is_work_besides_training(file: str) -> None:
    run = Planted()
    run.loader(0, **{**TRAINS, "forward": 1400, "other": 100}, workers=0, cpu=1000)
    update = AUGMENTS._replace(functions=["Meter.update"], line=70, after=True, looks=50, file=file)
    run.lines.append(_looks(update, AUGMENTS._replace(looks=25), forward=25, loader=0))
    account = run.account(2)
    rows = {one.code: one.s for one in account.rows}
    assert rows["other"] == pytest.approx(0.8) and rows["prepare"] == pytest.approx(0.35)
    assert rows["before-backward"] == pytest.approx(0.35)
    (cause,) = (one for one in account.causes if one.code == "callbacks")
    assert (cause.s, cause.recoverable_s) == (pytest.approx(0.8), pytest.approx(0.8))
    assert cause.values == {"file": file or "a/train.py", "line": 70, "function": "Meter.update"}


WAITS = AUGMENTS._replace(functions=["Feeder.next"], ns=60_000_000, cpu_ns=3_000_000)


@pytest.mark.parametrize(("copies", "told"), [(0, True), (100, False)])
def test_a_loop_without_a_loader_that_waits_before_the_model_waits_for_data_unless_a_device_is_used(
    copies, told
) -> None:
    run = Planted()
    run.loader(0, **{**TRAINS, "forward": 1400, "host_to_device": copies}, workers=0, cpu=1000)
    run.lines.append(_looks(WAITS, loader=0))
    account = run.account(2)
    found = [one for one in account.causes if one.code == "prepare"]
    assert bool(found) == told
    if told:
        assert found[0].recoverable_s == pytest.approx(0.84)
        assert "Waiting in the loop itself, before the model, took" in said(account)
        assert "Most of it: Feeder.next, called in train.py:62. A source that has each batch ready" in said(account)


@pytest.mark.parametrize(("ns", "rests"), [(60_000_000, True), (20_000_000, False), (0, False)])
def test_a_few_looks_that_met_no_work_are_no_wait(ns: int, rests: bool) -> None:
    """A thread that gave up its core to another process met them all."""
    found = prepared(_run(_looks(WAITS._replace(ns=ns, cpu_ns=ns // 10), loader=0)), 0)
    assert found is not None and found.rests is rests


@pytest.mark.parametrize("cpu_ns", [0, 900_000])
def test_a_function_that_only_waits_needs_no_looks_that_follow_each_other(cpu_ns: int) -> None:
    """The wait may end in one for a core, or for the lock of the interpreter, with which another thread computes."""
    gets = WAITS._replace(functions=["Queue.get", "Condition.wait"], ns=1_000_000 if cpu_ns else 0, cpu_ns=cpu_ns)
    found = prepared(_run(_looks(gets, loader=0)), 0)
    assert found is not None and found.rests


def test_where_looks_are_not_compared_it_belongs_to_forward() -> None:
    phases = [PhaseResult("wait", 1.0, 0.25), PhaseResult("prepare", 1.0, 0.25), PhaseResult("forward", 2.0, 0.5)]
    assert as_clocked(phases) == (PhaseResult("wait", 1.0, 0.25), PhaseResult("forward", 3.0, 0.75))
    assert as_clocked(phases[::2]) == tuple(phases[::2])
    without = [PhaseResult("prepare", 1.0, 0.25), PhaseResult("before-backward", 3.0, 0.75)]
    assert as_clocked(without) == (PhaseResult("before-backward", 4.0, 1.0),)


@pytest.mark.parametrize(
    ("held", "code", "text"),
    [
        ({"unused": 4096}, "padding", "80 % of a batch is padding at the end of all its samples. Training takes about"),
        (
            {"uneven": 4096.0}, "unequal-lengths",
            "80 % of a batch is padding of samples that are shorter than its longest one. Training",
        ),
    ],
)  # fmt: skip
def test_padding_is_a_cause_and_training_is_what_it_costs(held: dict[str, Any], code: str, text: str) -> None:
    run = Planted()
    run.loader(**TRAINS)
    run.worker(content=Content(10, 80, columns=5120, **held))
    account = run.account()
    (cause,) = (one for one in account.causes if one.code == code)
    assert cause.recoverable_s == pytest.approx(0.8 * 0.9)
    assert text in said(account)


SMOOTHS = LineLooks("a/train.py", "smooth", 12, "", 30)
TITLED = {
    **dict(slow_file="a/train.py", slow_function="smooth", slow_line=12),
    "line_share": 0.9,
    "title": "arrays",
    "how": "Use arrays.",
}


def test_the_line_inside_is_told_beside_what_workers_save() -> None:
    run = Planted()
    run.loader(passes=4, **TRAINS)
    run.worker(busy=0.1)
    augments = AUGMENTS._replace(own=1, looks=30)
    within = [augments, augments._replace(functions=["augment", SMOOTHS.function], own=2, looks=10)]
    run.lines.append(replace(_looks(*within), early_lines=[SMOOTHS, SMOOTHS._replace(line=13, looks=10)]))
    text = said(run.account())
    assert "Most of it: augment, called in train.py:62. Inside, 75 % is train.py:12." in text


def test_the_line_is_inside_the_function_that_is_named_and_not_in_another_call_of_that_line() -> None:
    """As in `normalise(mixup(x))`, of which the outer one computes, and the inner one waits as for a device."""
    run = Planted()
    run.loader(passes=4, **TRAINS)
    run.worker(busy=0.1)
    waits = AUGMENTS._replace(functions=["mixup"], own=1, looks=80, cpu_ns=0)
    looks = _looks(waits, AUGMENTS._replace(functions=["normalise"], own=1))
    inner, outer = LineLooks("a/train.py", "mixup", 9, "", 80), LineLooks("a/train.py", "normalise", 14, "", 60)
    run.lines.append(replace(looks, early_lines=[inner, outer]))
    assert "Most of it: normalise, called in train.py:62. Inside, 100 % is train.py:14." in said(run.account())


@pytest.mark.parametrize("workers", [0, 1])
def test_where_no_device_trains_a_wait_before_the_model_is_told_with_its_line(workers: int) -> None:
    """Workers need no core to wait in its place."""
    run = Planted()
    run.loader(passes=4, workers=workers, **TRAINS)
    if workers:
        run.worker(busy=0.1)
    waits = AUGMENTS._replace(functions=["mixup"], own=1, looks=75, ns=60_000_000, cpu_ns=0)
    looks = _looks(waits, AUGMENTS._replace(functions=["normalise"], own=1, looks=25), forward=20)
    lines = [LineLooks("a/train.py", "mixup", 9, "", 75), LineLooks("a/train.py", "normalise", 14, "", 25)]
    run.lines.append(replace(looks, early_lines=lines, on_host=True))
    text = said(run.account())
    assert "Waiting in the loop itself, before the model, took " in text
    assert "Most of it: mixup, called in train.py:62 (about " in text
    assert "). Inside, 100 % is train.py:9. Then normalise, called in train.py:62 (about " in text
    assert "). Doing it in the workers (in the dataset, or in collate_fn)" in text
    run.lines = [replace(one, on_host=False) if isinstance(one, LoopLooks) else one for one in run.lines]
    assert "Waiting" not in said(run.account())


def test_a_wait_for_other_ranks_makes_no_batch() -> None:
    waits = AUGMENTS._replace(functions=["_exception_logger.<locals>.wrapper", "barrier"], cpu_ns=0)
    assert prepared(_run(replace(_looks(waits), on_host=True)), 1) is None


IN_WORKERS = "Doing it in the workers (in the dataset, or in collate_fn) could save about {} (predicted, not tried)."
CHEAPER = "Making it cheaper could save up to 3.00 s (not tried)."


@pytest.mark.parametrize(
    ("workers_s", "text"),
    [
        (3.0, IN_WORKERS.format("3.00 s")),
        (0.5, f"{IN_WORKERS.format('500 ms')} {CHEAPER}"),
        (0.0, CHEAPER),
    ],
)
def test_where_workers_save_little_cheaper_work_is_told(workers_s: float, text: str) -> None:
    values = {"file": "a/train.py", "line": 62, "function": "augment", "workers": 1, "workers_s": workers_s, **TITLED}
    one = Cause("prepare", 3.0, max(workers_s, 2.7), 1, values)
    assert SENTENCES["prepare"](one, values, "3.00 s").endswith(text)


def test_first_workers_come_with_fewer_threads() -> None:
    values = {
        "file": "a/train.py",
        "line": 62,
        "function": "augment",
        "workers_s": 2.0,
        "more_workers": 1,
        "to_threads": 1,
    }
    told = SENTENCES["prepare"](Cause("prepare", 2.0, 2.0, 1, values), values, "2.00 s")
    assert "with num_workers=1 and torch.set_num_threads(1) in the script, could save about 2.00 s" in told


def test_the_next_step_is_a_line_that_is_known_and_workers_beside_it() -> None:
    values = {"file": "a/train.py", "line": 62, "function": "augment", "workers": 1, "workers_s": 1.0}
    plain = move_of_run(None, [Cause("prepare", 3.0, 1.0, 1, values)], 2)
    assert plain is not None and plain.line == 62
    assert next_move(plain) == (
        "Next: do the work on batches before the model (augment, called in train.py:62) in the workers of loader 1: "
        "in its dataset, or in collate_fn."
    )
    known = move_of_run(None, [Cause("prepare", 3.0, 2.7, 1, {**values, **TITLED})], 2)
    assert next_move(known) == (
        "Next: change train.py:12 (smooth, 90 % of this work) to arrays. Use arrays. Or do the work on batches before "
        "the model in the workers of loader 1: in its dataset, or in collate_fn."
    )


@pytest.mark.parametrize(
    ("called", "for_what"),
    [
        ("Condition.wait", "other threads or processes"),
        ("await", "what else asyncio runs"),
        ("EpollSelector.select", ""),
    ],
)
def test_beside_a_wait_for_other_threads_nobody_knows_what_less_of_other_work_saves(called: str, for_what: str) -> None:
    """They may work meanwhile. What asks a server waits only once it has asked."""
    run, said_so = Planted(), bool(for_what)
    run.loader(0, **{**TRAINS, "forward": 1400, "other": 100}, workers=0, cpu=1000)
    update = AUGMENTS._replace(functions=["Meter.update"], line=70, after=True, looks=30)
    run.lines.append(_looks(update, WAITS._replace(functions=["Feeder.next", called]), forward=30, loader=0))
    account = run.account(2)
    (waits,) = (one for one in account.causes if one.code == "prepare")
    (besides,) = (one for one in account.causes if one.code == "callbacks")
    assert waits.recoverable_s == pytest.approx(0.7) and ("for_others" in waits.values) == said_so
    assert (besides.recoverable_s is None) == said_so == ("for_others" in besides.values)
    text = said(account)
    assert (f"It waits there for {for_what}." in text) == said_so
    assert ("who may work meanwhile: what less of it saves is not known." in text) == said_so
    assert ("Doing it less often, or at less cost, could save about" in text) != said_so
    (row,) = (one for one in account.rows if one.code == "other")
    assert (row.recoverable_s is None) == said_so
