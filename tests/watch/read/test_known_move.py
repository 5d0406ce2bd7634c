"""A line that is known to be slow comes before workers and before a cheaper stage, where it has a large share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from made_up_loop import host, loader, result, worker

from pipebench.render import layout
from pipebench.render.watch_causes import SENTENCES
from pipebench.render.watch_drilled import all_drilled
from pipebench.render.watch_verdict import next_move
from pipebench.results.account import Account, AccountRow, Cause
from pipebench.results.drilled import DrilledLine, DrilledRow, NeedlessCall
from pipebench.results.next_move import NextMove
from pipebench.results.watched import StageResult, Verdict, WatchResult
from pipebench.stats import Speedup
from pipebench.watch.read.known_move import known_of_cause, with_slow_lines
from pipebench.watch.read.known_table import KNOWN as KNOWN_LINES
from pipebench.watch.read.moves import among_ranks, in_its_words

TITLE, HOW = "columns as arrays", ("pandas builds an object for each row.", "Take the columns out once.")


def _line(share: float, title: str = TITLE, line: int = 47) -> DrilledLine:
    how = HOW if title else ()
    return DrilledLine("/home/me/clips.py", "Clips.__getitem__", line, "", "", 90, share, share, share, title, how)


def _watched(*lines: DrilledLine, stage: float = 0.9, **more: Any) -> WatchResult:
    row = DrilledRow(1, "Clips.__getitem__", "getitem", stage, 100, 0, lines)
    stages = (StageResult("Clips.__getitem__", "getitem", 1, 100, 0.01, stage),)
    return replace(result(loader()), drilled=(row,), **{"verdict": Verdict("data", loader=1), "stages": stages, **more})


def _said(move: NextMove, run: WatchResult) -> str:
    found = next_move(in_its_words(move, run))
    assert found is not None
    return found


CHEAPER = NextMove("make-stage-cheaper", 2, 2, 2.0, stage="Clips.__getitem__", stage_s=0.01, sample_s=0.01)
MORE = NextMove("raise-num-workers", 4, 2, 2.0, to_workers=4, predicted=Speedup(1.8, 1.5, 2.1, 0.95))
FIRST = NextMove("set-num-workers", 2, to_workers=1, predicted=Speedup(1.25, 0.68, 2.31, 0.95), on_device=True)
KNOWN = (
    "Next: change clips.py:47 (Clips.__getitem__, {} of making samples) to columns as arrays. pandas builds an object "
    "for each row. Take the columns out once."
)


def test_a_cheaper_stage_is_made_by_its_line() -> None:
    assert _said(CHEAPER, _watched(_line(0.4))) == KNOWN.format("36 %")
    assert "make Clips.__getitem__ cheaper" in _said(CHEAPER, _watched(_line(0.25)))
    other = replace(CHEAPER, stage="Image.load")
    assert "make Image.load cheaper" in _said(other, _watched(_line(0.4)))


def test_looks_that_could_not_be_read_count_as_the_others() -> None:
    run = _watched(_line(0.2))
    run = replace(run, drilled=(replace(run.drilled[0], looks=100, unread=50),))
    assert _said(CHEAPER, run) == KNOWN.format("36 %")
    assert replace(run.drilled[0], unread=99).of_lines == pytest.approx(4 * run.drilled[0].worker_share)


def test_lines_of_another_stage_are_named_before_a_stage_of_which_nothing_is_known() -> None:
    other, run = replace(CHEAPER, stage="Image.load"), _watched(_line(0.4))  # 36 % of making samples
    for share, told in ((0.59, True), (0.61, False)):
        stage = StageResult("Image.load", "decode", 1, 100, 0.01, share)
        said = _said(other, replace(run, stages=(*run.stages, stage)))
        assert (said == KNOWN.format("36 %")) is told


def test_what_is_needless_elsewhere_is_named_with_its_place() -> None:
    load = NeedlessCall("before", "load", "/me/data.py", 30, False, 3, 6, 3, 0, 0, 0.5, 0.3, 1)
    run = replace(_watched(_line(0.1)), needless=(load, replace(load, loader=2, share=0.9)))
    stage = StageResult("Image.load", "decode", 1, 100, 0.01, 0.4)
    said = _said(replace(CHEAPER, stage="Image.load"), replace(run, stages=(*run.stages, stage)))
    assert said.startswith("Next: change data.py:30 (30 % of making samples) to a single call. Of 6 calls")


def test_a_file_that_is_read_again_and_again_is_named() -> None:
    said = _said(CHEAPER, _watched(replace(_line(0.9), reread="/data/vocab.json")))
    assert "columns as arrays. vocab.json is opened and read anew, again and again. pandas builds" in said


def test_lines_of_one_kind_count_together_and_the_largest_is_named() -> None:
    run = _watched(_line(0.1, line=46), _line(0.3))
    assert _said(CHEAPER, run) == KNOWN.format("36 %").replace("clips.py:47", "clips.py:47 and lines like it")


def test_before_workers_a_line_needs_half_of_making_samples() -> None:
    said = _said(MORE, _watched(_line(0.6)))
    assert said == KNOWN.format("54 %") + (
        " Or set num_workers to 4 (predicted: 1.80× (1.50–2.10) as fast; this was not tried)."
    )
    busy = _said(replace(MORE, cores_used=1.0, foreign_cores=1.0), _watched(_line(0.6)))
    assert busy.endswith(" as fast; this was not tried, and part of it would be taken from other processes).")
    assert _said(MORE, _watched(_line(0.5))) == next_move(MORE)
    assert _said(FIRST, _watched(_line(1.0))) == KNOWN.format("90 %")  # with workers, it may take longer
    surely = replace(FIRST, predicted=Speedup(1.25, 1.01, 2.31, 0.95))
    said = _said(surely, _watched(_line(1.0)))
    assert said.endswith("1.25× (1.01–2.31) as fast; this was not tried, and such figures were not verified on a GPU).")
    unknown = replace(MORE, to_workers=None, predicted=None, undivided=True)
    run = _watched(_line(1.0))
    run = replace(run, loaders=(replace(run.loaders[0], undivided=True),))
    assert "Or set num_workers to more than 2. First let each worker" in _said(unknown, run)


@pytest.mark.parametrize("action", ["keep-workers", "shorten-wait-part", "lower-num-workers", "vectorise"])
def test_other_moves_stay_as_they_are(action: Any) -> None:
    move = NextMove(action, 2, 2, loader=1)
    found = in_its_words(move, _watched(_line(1.0)))
    assert found is not None and not found.title


def test_validation_that_loads_slowly_has_the_line_of_its_own_loader() -> None:
    move = NextMove("load-validation-faster", 2, 2, loader=1)
    assert _said(move, _watched(_line(1.0))).startswith(KNOWN.format("90 %") + " Or load the batches")
    assert not in_its_words(replace(move, loader=2), _watched(_line(1.0))).title  # type: ignore[union-attr]


def test_the_place_of_a_line_of_which_nothing_is_known_is_not_that_of_a_loader() -> None:
    move = NextMove("load-validation-faster", 2, 0, loader=2, function="f", file="clips.py", line=47, line_share=0.6)
    assert "of the loops that do not train (loader 2) faster" in (next_move(move) or "")


def test_a_neural_network_has_its_layers_as_rows() -> None:
    parts = tuple(StageResult(f"Conv2d ({n} of 2)", "transform", 1, 9, 0.1, 0.3, learned=True) for n in (1, 2))
    said = _said(FIRST, replace(_watched(), stages=parts))
    assert said.startswith(
        "Next: change the dataset (60 % of making samples) to the model for whole batches. It runs for one"
    )
    plain = tuple(replace(one, learned=False) for one in parts)
    assert _said(FIRST, replace(_watched(), stages=plain)) == next_move(FIRST)
    cheaper = replace(CHEAPER, stage="Conv2d (1 of 2)")
    assert "the model for whole batches" in _said(cheaper, replace(_watched(), stages=parts))
    loads = StageResult("Image.load", "decode", 1, 9, 0.1, 0.39)
    other = _said(replace(CHEAPER, stage="Image.load"), replace(_watched(), stages=(*parts, loads)))
    assert "(60 % of making samples) to the model for whole batches" in other


def test_a_line_is_a_step_where_faster_loading_could_save_most() -> None:
    """Workers that rest at times, and take cores from the loop: no other step follows."""
    loading, other = Cause("stage", 2.0, 2.0, 1), Cause("callbacks", 3.0, 3.0, 1)
    run = _watched(_line(0.6))
    move = known_of_cause([loading], run)
    assert move is not None and next_move(in_its_words(move, run)) == KNOWN.format("54 %")
    assert known_of_cause([loading, other], run) is None
    assert known_of_cause([loading], _watched(_line(0.5))) is None
    assert known_of_cause([loading], _watched(_line(0.9, ""))) is None
    assert known_of_cause([], run) is None and known_of_cause([other], run) is None


# Of a run of 20 s, its loop takes 12 s and waits for 8 s.
ACCOUNT = Account(
    20.0, (AccountRow("wait-for-worker", 8.0, 1), AccountRow("backward", 4.0, 1), AccountRow("exit", 8.0))
)


@pytest.mark.parametrize(
    ("cause", "share", "saved_s"),
    [
        (Cause("no-workers", 8.0, 5.0, 1, {"usable_cores": 2}), 0.6, 0.54 * 8.0),  # of what the loop makes itself
        (Cause("stage", 8.0, 8.0, 1), 0.6, 0.54 * 12.0),  # workers make batches all the time
        (Cause("stage", 8.0, 8.0, 1), 0.9, 8.0),  # but the loop waits no longer
        (Cause("stage", 8.0, 5.0, 1), 0.9, 5.0),  # and a device is busy meanwhile: faster loading saves no more
        (Cause("stage", 8.0, 5.0, 1), 0.5, None),  # a small part
        (Cause("callbacks", 8.0, 5.0, 1), 0.9, None),
        (Cause("stage", 8.0, 5.0, 2), 0.9, None),  # of another loader
    ],
)
def test_the_cause_has_the_line_and_the_most_that_it_could_save(cause: Cause, share: float, saved_s: float) -> None:
    (found,) = with_slow_lines([cause], _watched(_line(share)), ACCOUNT)
    assert found.values.get("slow_s") == (saved_s if saved_s is None else pytest.approx(saved_s))
    said = SENTENCES[found.code](found, found.values, "8.00 s")
    told = (
        f" {100 * 0.9 * share:.0f} % of making samples goes to clips.py:47, which is known to be slow. A change to "
        "columns as arrays could save about"
    )
    assert (told in said) == (saved_s is not None)
    if saved_s is not None:
        assert said.index(told) < max(said.find("00 s (predicted"), said.find("00 s, less what their start"))


@pytest.mark.parametrize("code", ["no-workers", "stage"])
@pytest.mark.parametrize("title", ["an index on the columns of WHERE", "chunks that hold what a sample reads"])
def test_no_saving_is_counted_on_where_the_text_does_not_tell_whether_a_line_is_slow(title: str, code: str) -> None:
    known = next(one for one in KNOWN_LINES if one.title == title)
    cause = Cause(code, 8.0, 5.0, 1, {"usable_cores": 2})  # type: ignore[arg-type]
    (found,) = with_slow_lines([cause], _watched(_line(0.9, title)), ACCOUNT)
    assert found.recoverable_s == 5.0
    said = SENTENCES[found.code](found, found.values, "8.00 s")
    assert f"which is known to be slow where {known.where}. If that is so, a change to {title} could save up to" in said
    assert "A change to" not in said and known.how[0].startswith("This helps only where")


def test_a_rank_among_others_has_its_line_too() -> None:
    workers = (worker(0), worker(1))
    run = _watched(_line(1.0), workers=workers, next_move=CHEAPER)
    found = among_ranks(replace(run, host=host(0.0, 2.0)), [], 0.0, 2.0).next_move
    assert found is not None and (found.title, found.line) == (TITLE, 47)


def test_what_the_next_step_does_not_say_stands_below_the_lines() -> None:
    run = _watched(_line(0.2), _line(0.5, ""))
    shown = layout.text(list(all_drilled(run, {1}, full=False)), width=200)
    said = "Change clips.py:47 (Clips.__getitem__) to columns as arrays. pandas builds an object for each row. Take the"
    assert said in shown
    assert said not in layout.text(
        list(all_drilled(replace(run, next_move=replace(MORE, title=TITLE)), {1}, full=False)), width=200
    )
    small = _watched(_line(0.14), _line(0.5, ""))
    assert said not in layout.text(list(all_drilled(small, {1}, full=False)), width=200)


UNKNOWN = "make clips.py:47 (Clips.__getitem__, 81 % of making samples) cheaper."


def test_a_line_of_which_nothing_is_known_is_named_where_it_takes_most() -> None:
    run = _watched(_line(0.9, ""), workers=(worker(0, busy_s=1.0, cpu_s=0.5),))
    assert _said(CHEAPER, run).startswith(f"Next: {UNKNOWN} No whole core is free")
    assert _said(MORE, run).startswith(f"Next: {UNKNOWN} Or set num_workers to 4")
    short = "make Clips.__getitem__ cheaper"
    assert short in _said(CHEAPER, _watched(_line(0.5, ""), workers=run.workers))
    unsure = replace(_line(0.9, ""), low=0.2)
    assert short in _said(CHEAPER, _watched(unsure, workers=run.workers))
    for of_no_line in (replace(_line(0.9, ""), line=0), replace(_line(0.9, ""), file="")):
        assert short in _said(CHEAPER, _watched(of_no_line, workers=run.workers))


@pytest.mark.parametrize(("cpu_s", "core_wait_s", "named"), [(0.5, 0.0, True), (0.3, 0.2, True), (0.3, 0.0, False)])
def test_what_mostly_waits_is_no_line_to_make_cheaper(cpu_s: float, core_wait_s: float, named: bool) -> None:
    of_worker = worker(0, busy_s=1.0, cpu_s=cpu_s, core_wait_s=core_wait_s)
    assert (UNKNOWN in _said(MORE, _watched(_line(0.9, ""), workers=(of_worker,)))) == named


@pytest.mark.parametrize(("cpu_s", "named"), [(0.8, True), (0.1, False)])
def test_the_same_in_a_loop_without_workers(cpu_s: float, named: bool) -> None:
    without = replace(loader(), workers=0, sample_s=1.0, sample_cpu_s=cpu_s)
    run = replace(_watched(_line(0.9, "")), loaders=(without,), workers=())
    assert (UNKNOWN in _said(FIRST, run)) == named


@pytest.mark.parametrize(("shrinks", "share", "said"), [(4, 0.6, True), (0, 0.6, False), (4, 0.1, False)])
def test_jpegs_that_are_made_small_at_once_come_before_workers(shrinks: int, share: float, said: bool) -> None:
    stages = (
        StageResult("imread", "decode", 1, 100, 0.008, share, True, shrinks=shrinks),
        StageResult("cv2.resize", "transform", 1, 100, 0.002, 0.2),
    )
    told = _said(MORE, _watched(stages=stages))
    assert (
        told.startswith("Next: change the dataset (80 % of making samples) to JPEGs decoded at a reduced size.") is said
    )
    assert ("cv2.imread(path, cv2.IMREAD_REDUCED_COLOR_4) gives a quarter of" in told) is said
    cheaper = replace(CHEAPER, stage="imread")
    assert ("JPEGs decoded at a reduced size" in _said(cheaper, _watched(stages=stages))) is bool(shrinks)
