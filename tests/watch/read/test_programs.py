"""What is said of programs that are not one loop over one loader, from made records."""

from __future__ import annotations

from typing import Any

import pytest

from pipebench.render.watch_notes import sentence
from pipebench.results.watched import Verdict, WatchResult
from pipebench.watch.launch.exits import Exit
from pipebench.watch.launch.footprint import Footprint
from pipebench.watch.launch.stacks import Looks
from pipebench.watch.read.collectives import other_alone_s
from pipebench.watch.read.gather import Process, Run, ShownTime
from pipebench.watch.read.programs import Records, programs_of
from pipebench.watch.read.summary import summarise
from pipebench.watch.record.lines import (
    CodePlace,
    Content,
    FetchSums,
    HandedOver,
    Line,
    LoaderFound,
    LoadersTogether,
    LoopSums,
    Moment,
    NewStage,
    NotRecognised,
    PassBegun,
    PassEnded,
    ProcessStarted,
    StageName,
)
from pipebench.watch.record.options import WatchOptions
from pipebench.watch.record.program_lines import OwnStep, OwnSteps, WithoutTorch
from pipebench.watch.record.spent import ROWS, SpentInPass, TimeSpent

MS = 1_000_000
MADE = [CodePlace("/v/site-packages/timm/data/loader.py", 5), CodePlace("/home/me/train.py", 31)]


def _result(*lines: Line, worker: tuple[Line, ...] = (), **options: Any) -> WatchResult:
    script = Process([ProcessStarted(10, "script", 0), *lines, Moment("end", 900 * MS)])
    started = ProcessStarted(20, "worker", 0, 1, 0, "fork")
    workers = [Process([started, *worker, Moment("end", 900 * MS)])] if worker else []
    return summarise([script, *workers], WatchOptions(**options), 0, 4, lived=(0, 900 * MS))


def _found(loader: int, dataset: str = "Photos", **more: Any) -> LoaderFound:
    return LoaderFound(loader, dataset, more.pop("workers", 1), 8, "fork", 2, made=MADE, **more)


def _turns(loader: int, wait: int, turns: int = 10, first: int = 1, **more: Any) -> LoopSums:
    phases = [wait * turns * MS, 0, 20 * turns * MS, 30 * turns * MS, 0, 0, 0]
    return LoopSums(loader, 0, first=first, begin=MS, turns=turns, trained=turns, phases_ns=phases, **more)


def _verdict(result: WatchResult) -> Verdict:
    assert isinstance(result.verdict, Verdict)
    return result.verdict


def test_one_batch_is_start_up_and_said_with_what_was_seen() -> None:
    """As with Lightning's `fast_dev_run`: the loop is left before it asks again, so no iteration is complete."""
    spent = [0] * len(ROWS)
    spent[ROWS.index("start-up")] = 300 * MS
    sums = FetchSums(1, 0, 40 * MS, batches=2, samples=16, busy_ns=32 * MS, cpu_ns=32 * MS, stages_ns={1: 32 * MS})
    result = _result(
        _found(1), PassBegun(1, 0, 0), PassEnded(1, "left", 290 * MS),
        TimeSpent(0, 800 * MS, 500 * MS, "before", [SpentInPass(1, 0, spent)]),
        worker=(NewStage(1, StageName("decode", "ImageFile.load", True)), sums),
    )  # fmt: skip
    found = _verdict(result)
    assert (found.limit, found.batches, found.samples) == ("no-iteration", 2, 16)
    assert round(found.startup_s or 0.0, 6) == 0.3
    assert (found.stage, found.file, found.line) == ("ImageFile.load", "/home/me/train.py", 31)
    assert result.next_move is None


def test_passes_of_one_batch_are_told_apart_by_how_they_ended() -> None:
    """`next(iter(loader))` in each step, and a loader whose one batch holds all samples."""
    spent = [0] * len(ROWS)
    spent[ROWS.index("start-up")] = 30 * MS
    sums = FetchSums(1, 0, 40 * MS, batches=3, samples=24, busy_ns=32 * MS, cpu_ns=32 * MS)
    for how, turns in (("left", 0), ("whole", 1)):
        lines: list[Line] = []
        for number in range(3):
            at = number * 50 * MS
            lines += [PassBegun(1, number, at), *[LoopSums(
                1, number, turns=1, trained=1, begin=at, phases_ns=[9 * MS, 0, MS, 0, 0, 0, 0], first_wait_ns=9 * MS,
            )] * turns, PassEnded(1, "exhausted" if turns else "left", MS),
                TimeSpent(at, at + 30 * MS, 0, "between", [SpentInPass(1, number, spent)])]  # fmt: skip
        result = _result(LoaderFound(1, "Photos", 0, 8, "none", None), *lines, sums)
        found = _verdict(result)
        assert (found.limit, found.batches, found.samples, found.passes) == ("no-iteration", 3, 24, 3)
        assert (found.single, round(found.startup_s or 0.0, 6)) == (how, 0.03)
        assert result.next_move is None


def test_an_iterator_that_was_only_looked_at_has_no_start_up_of_a_later_pass() -> None:
    later = LoopSums(1, 1, turns=1, trained=1, begin=9000 * MS, phases_ns=[9 * MS, 0, MS, 0, 0, 0, 0],
                     first_wait_ns=9 * MS)  # fmt: skip
    result = _result(_found(1), PassBegun(1, 0, 0), PassBegun(1, 1, 9000 * MS), later, _turns(1, 5))
    assert result.startup_s is None and result.loaders[0].startup_s is None


def test_a_loop_of_one_iteration_is_not_judged_by_its_start_up() -> None:
    first = LoopSums(
        1, 0, turns=1, trained=1, begin=MS, phases_ns=[300 * MS, 0, MS, MS, 0, 0, 0], first_wait_ns=300 * MS
    )
    result = _result(_found(1), PassBegun(1, 0, 0), first)
    assert _verdict(result).limit == "no-iteration" and result.next_move is None


def test_of_loaders_in_step_the_verdict_names_the_one_that_is_waited_for() -> None:
    lines = (_found(1), _found(2, "Pairs"), PassBegun(1, 0, 0), PassBegun(2, 0, 0), LoadersTogether(1, 2))
    for first, second, expected in ((90, 5, (1, "Photos")), (5, 90, (2, "Pairs"))):
        found = _verdict(_result(*lines, _turns(1, first), _turns(2, second)))
        assert (found.limit, found.loaders) == ("data", 2) and (found.loader, found.dataset) == expected


def test_the_loop_of_a_background_thread_has_no_verdict() -> None:
    """Nothing trains in it, so its wait says nothing about training."""
    beside = LoopSums(1, 0, first=1, turns=10, begin=MS, phases_ns=[990 * MS, 0, 0, 0, 0, 10 * MS, 0], beside=True)
    result = _result(_found(1), PassBegun(1, 0, 0), beside)
    assert _verdict(result).limit == "not-followed" and result.next_move is None


def test_a_loader_without_workers_that_is_waited_for_is_iterated_by_a_thread_beside_the_loop() -> None:
    """What `script/relays.py` records of MONAI's ThreadDataLoader: the wait is for a batch of somebody else's."""
    turns = _turns(1, 40, wait_parts_ns=[0, 0, 0, 400 * MS, 0, 0, 0, 0, 0])
    found = _found(1, workers=0), PassBegun(1, 0, 0)
    assert _verdict(_result(*found, turns)).by_thread
    alone = _turns(1, 40, wait_parts_ns=[0, 0, 0, 0, 0, 0, 0, 400 * MS, 0])
    assert not _verdict(_result(*found, alone)).by_thread
    workers = _found(2), PassBegun(2, 0, 0), _turns(2, 10, wait_parts_ns=[0, 0, 0, 100 * MS, 0, 0, 0, 0, 0])
    both = _verdict(_result(*found, alone, *workers))
    assert both.loader == 1 and not both.by_thread


def test_a_loop_without_a_loader_is_no_loader_of_the_script() -> None:
    result = _result(LoaderFound(0, "", 0, None, "none", None), PassBegun(0, 0, 0), _turns(0, 0))
    assert _verdict(result).limit == "no-loader" and result.loaders[0].loader == 0
    found = _verdict(_result(LoaderFound(0, "", 0, None, "none", None), PassBegun(0, 0, 0), _turns(0, 0), loader=3))
    assert (found.limit, found.loader, found.loaders) == ("no-such-loader", 3, 0)


def test_workers_of_a_loader_that_is_made_anew_cannot_live_on() -> None:
    """Though it asks for persistent workers, they start for each pass: to make it once would save that."""
    rows = [0] * len(ROWS)
    rows[ROWS.index("start-up")], rows[ROWS.index("forward")], rows[ROWS.index("backward")] = 200 * MS, MS, MS
    spent = TimeSpent(0, 606 * MS, 0, "between", [SpentInPass(1, number, rows) for number in range(3)])
    passes = [PassBegun(1, number, number * MS, again=number) for number in range(3)]
    result = _result(_found(1, persistent=True), *passes, _turns(1, 5), spent)
    assert result.account is not None and result.loaders[0].again == 2
    (cause,) = (one for one in result.account.causes if one.code == "start-up")
    assert cause.values["again"] == 2 and round(cause.recoverable_s or 0, 6) == 0.4
    assert result.next_move is not None and not isinstance(result.next_move, str)
    assert (result.next_move.action, result.next_move.again) == ("keep-workers", 2)


def test_a_loader_from_which_no_batch_is_taken_is_no_validation() -> None:
    """As on a rank that gets its batches from another one: accelerate makes an iterator there, and never asks it."""
    rows = [0] * len(ROWS)
    rows[ROWS.index("start-up")] = 200 * MS
    trains = [0] * len(ROWS)
    trains[ROWS.index("forward")], trains[ROWS.index("backward")] = 300 * MS, 300 * MS
    spent = TimeSpent(0, 800 * MS, 0, "between", [SpentInPass(1, 0, rows), SpentInPass(0, 0, trains)])
    bare = LoaderFound(0, "", 0, None, "none", None), PassBegun(0, 0, 0), _turns(0, 0)
    for taken, codes in (((), {"start-up"}), ((PassEnded(1, "left", MS),), {"validation"})):
        result = _result(_found(1), PassBegun(1, 0, 0), PassBegun(1, 1, MS), *taken, *bare, spent)
        assert result.account is not None
        assert {one.code for one in result.account.rows if one.loader == 1} == codes
        (cause,) = (one for one in result.account.causes if one.code == "start-up")
        assert cause.values["in_validation"] == len(taken)


def test_collectives_between_training_and_the_next_batch_are_no_callbacks() -> None:
    """DeepSpeed sums gradients after backward. A step has 40 ms of it, and 5 ms of the rank's own work."""

    def saves(*more: Line) -> tuple[float, list[float]]:
        rows = [0] * len(ROWS)
        rows[ROWS.index("forward")], rows[ROWS.index("backward")] = 30 * MS, 300 * MS
        rows[ROWS.index("other")] = 420 * MS
        spent = TimeSpent(0, 800 * MS, 50 * MS, "between", [SpentInPass(1, 0, rows)])
        account = _result(_found(1), PassBegun(1, 0, 0), _turns(1, 0), spent, *more).account
        assert account is not None
        (row,) = (one.recoverable_s for one in account.rows if one.code == "other")
        return round(row or 0.0, 6), [round(one.s, 6) for one in account.causes if one.code == "callbacks"]

    assert saves() == (0.42, [0.42])
    own = OwnSteps([OwnStep(number, 0, 10**12 if number == 0 else 5 * MS) for number in range(10)])
    assert saves(own) == (0.02, [])


@pytest.mark.parametrize(("logged", "alone"), [(0, 0.0), (40, 0.2)])
def test_validation_between_two_steps_is_no_callback_of_a_rank(logged: int, alone: float) -> None:
    """Of 100 steps of 15 ms, every 20th comes after a validation of 20 s, and logs for so many ms."""
    after = [number % 20 == 10 for number in range(100)]
    steps = [OwnStep(number, 0, (15 + logged * one) * MS, 20_000 * MS * one) for number, one in enumerate(after)]
    run = Run([Process([ProcessStarted(1, "script", 0), OwnSteps(steps)])], ShownTime(), (1, 2))
    assert other_alone_s(run, 1.0, 0.5) == pytest.approx(alone, abs=1e-6)


def test_tokens_are_a_fact_of_the_loader() -> None:
    sums = FetchSums(1, 0, 40 * MS, batches=2, samples=16, busy_ns=MS, content=Content(2, 16, 600, 1_000))
    content = _result(_found(1), PassBegun(1, 0, 0), _turns(1, 5), worker=(sums,)).loaders[0].content
    assert content is not None and (content.samples, content.tokens, content.padding_share) == (8, 300, 0.4)


def test_a_torch_that_is_not_recognised_is_the_reason_and_no_loop_is_missed() -> None:
    strange = NotRecognised("2.99.0", ["_DatasetKind.create_fetcher"])
    result = _result(strange, bound=True)
    assert _verdict(result).lacks == ("_DatasetKind.create_fetcher",) and result.bound is None
    assert _result(bound=True).bound is not None


def test_what_still_runs_and_has_iterated_nothing_is_counted() -> None:
    """As where a script starts a training in the background and does not wait for it."""
    idle = [Process([ProcessStarted(pid, "script", 0)]) for pid in (7, 8)]
    seen = [Records([one], Footprint(), Looks(), running=one.pid == 7) for one in idle]
    _, command = programs_of(("run.sh",), seen, WatchOptions(), 0, 4.0)
    assert (command.others, command.running) == (2, 1)


def test_a_process_that_found_no_torch_imported_none() -> None:
    """One of a Python that has none, one where its import failed, and one that imported it."""
    lacks = [WithoutTorch("/usr/bin/python3", True)], [WithoutTorch("/opt/bin/python", False)], []
    every = [Process([ProcessStarted(pid, "script", 0), *lines]) for pid, lines in enumerate(lacks)]
    seen = [Records([one], Footprint(), Looks()) for one in every]
    _, command = programs_of(("run.sh",), seen, WatchOptions(), 1, 4.0)
    assert (command.others, command.torchless) == (1, ("/usr/bin/python3",))


def test_of_a_program_that_was_killed_it_is_known_whether_memory_ran_out() -> None:
    lines = [ProcessStarted(10, "script", 0), _found(1), PassBegun(1, 0, 0), _turns(1, 5)]
    for kills, status, ran_out in ((1, -9, True), (1, None, True), (0, -9, False), (None, -9, False), (1, -15, False)):
        seen = Records([Process(lines)], Footprint(memory_kills=kills), Looks(), left=Exit(900 * MS, status))
        _, command = programs_of(("torchrun",), [seen], WatchOptions(), 1, 4.0)
        assert command.programs[0].ended == "cut" and command.programs[0].memory_ran_out is ran_out


def test_a_function_of_span_that_has_a_row_anyway_is_not_said_to_have_not_run() -> None:
    """Functions of OpenCV are timed without being asked for, so they are not timed again."""
    sums = FetchSums(1, 0, 40 * MS, batches=2, samples=16, busy_ns=32 * MS, stages_ns={1: 20 * MS, 2: 12 * MS})
    stages = NewStage(1, StageName("decode", "imread", True)), NewStage(2, StageName("transform", "cv2.resize"))
    functions = ("cv2:imread", "cv2:resize", "cv2:flip")
    result = _result(_found(1), PassBegun(1, 0, 0), _turns(1, 5), worker=(*stages, sums), functions=functions)
    assert [one.values["span"] for one in result.notes if one.code == "span-not-run"] == ["cv2:flip"]


def test_each_worker_gives_all_samples_of_a_stream_that_asks_for_none() -> None:
    """A pass over 4 workers has each sample 4 times: said first, and not of one worker or none."""
    found = _result(_found(1, "Clips", workers=4, undivided=True), PassBegun(1, 0, 0), _turns(1, 5)).notes[0]
    assert sentence(found) == (
        "Each of the 4 workers of loader 1 gives all samples, unless something divides them: nothing in the code of "
        "Clips asks for the worker (get_worker_info)."
    )
    for workers in (0, 1):
        one = _result(_found(1, "Clips", workers=workers, undivided=True), PassBegun(1, 0, 0), _turns(1, 5))
        assert "undivided" not in {note.code for note in one.notes}


@pytest.mark.parametrize(
    ("shared", "viewed", "arrays", "doubles", "told"),
    [(2e6, 0, 0, 2e6, "2.00 MB"), (8e6, 5e6, 0, 2e6, "2.00 MB"), (1e6, 0, 3e6, 1e6, ""), (4e5, 0, 0, 4e5, "")],
    ids=["all", "the-rest-is-viewed", "a-part", "small"],
)
def test_batches_of_float64(shared: float, viewed: float, arrays: float, doubles: float, told: str) -> None:
    counts = (2, int(shared), 1, int(arrays), int(viewed), int(doubles))
    handed = [HandedOver(0, 0, 0, 0, 10 * MS, 11 * MS, 12 * MS, 9, 400, *counts)]
    worker = (FetchSums(1, 0, 40 * MS, batches=2, samples=16, busy_ns=32 * MS, handed=handed),)
    notes = _result(_found(1), PassBegun(1, 0, 0), _turns(1, 5), worker=worker).notes
    said = [sentence(one) for one in notes if one.code == "float64"]
    assert bool(said) == bool(told)
    assert not told or said[0].startswith(f"A batch of loader 1 holds {told} of float64. If the model")


@pytest.mark.parametrize(
    ("kind", "nested", "told"), [("function", 3, True), ("function", 0, False), ("decode", 3, False)]
)
def test_lists_in_lists_that_a_library_puts_together(kind: str, nested: int, told: bool) -> None:
    columns = {"box": 2, "image": nested} if nested else {}
    stages = NewStage(1, StageName(kind, "format_table")), NewStage(2, StageName("collate", "default_collate"))
    sums = FetchSums(1, 0, 40 * MS, batches=2, samples=16, busy_ns=32 * MS, stages_ns={1: 24 * MS, 2: 8 * MS})
    found = _result(_found(1, nested=columns), PassBegun(1, 0, 0), _turns(1, 5), worker=(*stages, sums))
    said = [sentence(one) for one in found.notes if one.code == "nested-lists"]
    assert bool(said) == told
    assert not told or said[0] == (
        "Functions of datasets take 75 % of the time of samples of loader 1, and its column image is stored as lists "
        "in lists, which they put together list by list. If all its samples have one shape, store it as Array3D "
        "(dataset.cast_column): then each is one block."
    )
