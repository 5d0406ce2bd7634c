"""Samples of a chain that are decoded, and then dropped by a `select`: told by what each stage passes on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from planted_runs import MS, TRAINS, TURNS, Planted, said

from pipebench.render.watch_verdict import next_move
from pipebench.results.account import Cause
from pipebench.watch.read import causes
from pipebench.watch.read.gather import Process
from pipebench.watch.read.moves_of_run import move_of_run
from pipebench.watch.record.device_lines import DeviceIdleTime
from pipebench.watch.record.lines import FetchSums, LoopSums, NewStage, StageName
from pipebench.watch.record.worker_lines import FieldSums

READ, DECODE, SELECT, AUGMENT, PIXELS, SELECT_LATER = 11, 12, 13, 14, 15, 126
NAMES = {
    READ: StageName("read", "tar_file_expander"),
    DECODE: StageName("decode", "Decoder"),
    SELECT: StageName("getitem", "select"),
    AUGMENT: StageName("transform", "augment"),
    PIXELS: StageName("decode", "ImageFile.load", True),  # inside the decoder of the chain
}


def _run(
    kept: int,
    made: int = 400,
    decode: int = 700,
    name: str = "select",
    augment: int = 0,
    rests: bool = False,
    **loader: Any,
) -> Planted:
    """Two workers that never rest. In a second, each decodes `made` samples in so many ms, and keeps some of them."""
    run = Planted()
    run.loader(**{"wait_for_worker": 600, **TRAINS, **loader})
    names = {**NAMES, SELECT: _called(name)}
    for number in range(2):
        more = {"process_cpu_ns": int(0.75 * 1900 * MS)} if rests else {}
        run.worker(number, busy=0.75 if rests else 1.0, cpu=0.75 if rests else 1.0, **more)
    gave = {READ: made, DECODE: made, SELECT: kept, **({AUGMENT: kept} if augment else {})}
    spent = {DECODE: 50 * MS, PIXELS: (decode - 50) * MS, **({AUGMENT: augment * MS} if augment else {})}
    for place, worker in enumerate(run.workers):
        lines: list[Any] = [
            replace(one, stages_ns={}) if isinstance(one, FetchSums) else one
            for one in (*(NewStage(*pair) for pair in names.items()), *worker.lines)
        ]
        *_, last = (nth for nth, one in enumerate(lines) if isinstance(one, FetchSums))
        lines[last] = replace(lines[last], gave=gave, stages_ns=spent)
        run.workers[place] = Process(lines)
    return run


def _called(name: str) -> StageName:
    return StageName("getitem", name)


def test_what_is_dropped_after_it_was_decoded_is_the_cause() -> None:
    account = _run(kept=100).account()
    cause = account.causes[0]
    assert cause.code == "made-in-vain" and cause.values["stage"] == "ImageFile.load"
    assert cause.values["dropped"] == pytest.approx(0.75)
    assert cause.recoverable_s == pytest.approx(0.7 * 0.75)  # of each worker's second, and of 600 ms of waits
    text = said(account)
    assert "drops 75 % of 800 samples by a select after ImageFile.load has made them." in text
    assert (
        "Selecting them before, if what it asks is known then, could save about 525 ms (predicted, not tried)." in text
    )
    move = next_move(move_of_run(None, account.causes, 2.0)) or ""
    assert "select samples before they are decoded and transformed" in move


@pytest.mark.parametrize(
    "how",
    [
        {"kept": 400},  # all are kept
        {"kept": 360},  # few are dropped
        {"kept": 100, "decode": 150},  # what is made of them takes little time
        {"kept": 100, "name": "shuffle"},  # a buffer holds them
        {"kept": 10, "made": 20},  # too few to tell
    ],
)
def test_otherwise_it_is_none(how: Any) -> None:
    assert "made-in-vain" not in _run(**how).causes()


def test_what_came_to_the_select_counts_and_not_what_was_made() -> None:
    """A buffer before it holds some, and batches are fewer than samples."""
    for stage, came in (("shuffle", 150), ("batched", 100)):
        run = _run(kept=came)
        for place, worker in enumerate(run.workers):
            lines = [
                replace(one, gave={READ: 400, DECODE: 400, 125: came, SELECT_LATER: came})
                if isinstance(one, FetchSums) and one.gave
                else one
                for one in worker.lines
            ]
            between = NewStage(125, StageName("getitem", stage)), NewStage(SELECT_LATER, StageName("getitem", "select"))
            run.workers[place] = Process([*between, *lines])
        assert "made-in-vain" not in run.causes()


def test_the_cores_that_it_takes_from_training_could_be_saved_too() -> None:
    """Two workers on two cores; without cores, the waits alone could be saved."""
    for cores, saved in ((2, 0.7 * 0.75), (4, 0.4)):
        run = _run(kept=100, wait_for_worker=200, passes=2, no_core=400, cpu=200)
        cause = next(one for one in run.account(cores).causes if one.code == "made-in-vain")
        assert cause.recoverable_s == pytest.approx(saved, rel=0.01)


def test_so_it_is_where_the_workers_rest_at_times_and_keep_training_from_a_core() -> None:
    how: Any = {"rests": True, "wait_for_worker": 0, "passes": 2, "no_core": 400, "cpu": 600}
    causes = {one.code: one for one in _run(kept=100, **how).account(2).causes}
    assert "stage" not in causes and causes["made-in-vain"].values["dropped"] == pytest.approx(0.75)
    assert causes["made-in-vain"].recoverable_s == causes["made-in-vain"].values["core_s"] == pytest.approx(0.4)
    assert "stage" in {one.code for one in _run(kept=390, **how).account(2).causes}


def test_what_is_made_behind_the_select_is_not_in_vain() -> None:
    """A decoder inside a stage counts as before the select, because a stage there decodes."""
    cause = next(one for one in _run(kept=100, augment=200).account().causes if one.code == "made-in-vain")
    assert cause.recoverable_s == pytest.approx(0.7 * 0.75)


def _with_fields(spent: dict[str, int], kept: set[str], times: int = 100) -> Planted:
    """Workers that decode fields for so many ms of a second."""
    run = _run(kept=400)
    sums = {name: FieldSums(ms * MS, times * (name in kept), times * (name not in kept)) for name, ms in spent.items()}
    for place, worker in enumerate(run.workers):
        *_, last = (nth for nth, one in enumerate(worker.lines) if isinstance(one, FetchSums))
        lines = [replace(one, fields=sums) if nth == last else one for nth, one in enumerate(worker.lines)]
        run.workers[place] = Process(lines)
    return run


SPENT = {"hr.jpg": 80, "lr.png": 20, "depth.png": 300, "normal.png": 240, "json": 2}
KEPT = {"hr.jpg", "lr.png"}


def test_fields_that_are_decoded_and_dropped_are_the_cause() -> None:
    account = _with_fields(SPENT, KEPT).account()
    cause = account.causes[0]
    assert cause.code == "fields-in-vain" and cause.recoverable_s == pytest.approx(0.542)  # of each worker's time
    text = said(account)
    assert (
        "decodes 5 fields of each sample, of which later stages drop 3: depth.png, normal.png, json are decoded in "
        "vain, 84 % of the decoding" in text
    )
    move = next_move(move_of_run(None, account.causes, 2.0)) or ""
    assert "decode only the fields that later stages pass on: decode(..., only=['hr.jpg', 'lr.png'])" in move


@pytest.mark.parametrize(
    "how",
    [
        {"kept": set(SPENT)},
        {"kept": KEPT, "times": 20},  # too few to tell
        {"kept": {"depth.png", "normal.png"}},  # what is dropped costs little
    ],
)
def test_otherwise_no_field_is_in_vain(how: Any) -> None:
    assert "fields-in-vain" not in _with_fields(SPENT, **how).causes()


def test_fields_save_no_more_than_the_time_that_a_device_waits() -> None:
    run = _with_fields(SPENT, KEPT)
    place = next(nth for nth, one in enumerate(run.lines) if isinstance(one, LoopSums))
    idle = DeviceIdleTime(200 * MS, TURNS - 1, None)
    run.lines[place] = replace(run.lines[place], idle=idle)
    cause = run.causes()["fields-in-vain"]
    assert cause.s == pytest.approx(0.542) and cause.recoverable_s == pytest.approx(0.2, rel=0.1)


def test_fields_that_are_too_little_to_be_told_leave_the_waits_to_other_causes(monkeypatch: pytest.MonkeyPatch) -> None:
    for vain_s, told in ((0.31, True), (0.35, False)):  # of waits of 0.6 s, in loops of which 5 % are 0.33 s
        monkeypatch.setattr(causes, "fields_in_vain", lambda seen, s=vain_s: [Cause("fields-in-vain", s, s, 1)])
        run = _run(kept=400)
        run.loader(2, forward=5000)
        assert ("stage" in run.causes()) is told
