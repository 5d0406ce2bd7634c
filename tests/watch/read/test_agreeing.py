"""What a report says could be saved: the first sentence, the rows, the next move and the command say the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from made_up_costs import made
from made_up_loop import loader, result
from planted_runs import TRAINS, Planted, said

from pipebench.render import layout, watch_account, watch_drilled
from pipebench.render.watch import parts
from pipebench.render.watch_verdict import next_command, next_move
from pipebench.results.account import Account, AccountRow, Cause
from pipebench.results.drilled import DrilledLine, DrilledRow
from pipebench.results.watched import StageResult, Verdict, WatchResult
from pipebench.watch.read.agreeing import with_causes
from pipebench.watch.read.gather import Run, ShownTime
from pipebench.watch.read.known_move import with_slow_lines
from pipebench.watch.read.moves import next_move as move_of
from pipebench.watch.read.moves_of_run import move_of_run
from pipebench.watch.read.of_causes import Seen
from pipebench.watch.read.without_workers import no_workers

ROW = AccountRow("make-batch", 3.0, 1, 1.0, "more-overlap")


def _line(share: float, title: str = "") -> DrilledLine:
    how = ("Keep a dict.",) if title else ()
    return DrilledLine("/a/ds.py", "DS.__getitem__", 19, "", "y = l.index(n)", 90, share, share, share, title, how)


def _short_samples(*lines: DrilledLine, stage: str = "DS.__getitem__", samples: int = 4) -> WatchResult:
    """A loop whose batches are made in 1 ms, where a worker takes 2 ms to hand one over."""
    alone = loader(
        workers=0,
        sample_s=0.001 / 32,
        sample_cpu_s=0.001 / 32,
        s_per_iteration=0.0016,
        wait_s_per_iteration=0.001,
        batch_size=samples,
    )
    costs = replace(made(cpu=0.001, workers=0), tensors=2.0, hand_over_s=0.002, loader=1)
    rows = (DrilledRow(1, stage, "getitem", 0.9, 100, 0, lines),) if lines else ()
    stages = (StageResult(stage, "getitem", 1, 400, 0.00003, 0.9),)
    return replace(
        result(alone, wait_s=0.001),
        costs=(costs,),
        drilled=rows,
        stages=stages,
        reads=(),
        verdict=Verdict("data", loader=1),
    )


def _judged(found: WatchResult) -> WatchResult:
    """The same with its account, in which the loop waits 3 s for batches, and the next move."""
    account = Account(9.0, (ROW, AccountRow("forward", 1.0, 1)))
    seen = Seen(Run([], ShownTime(), ()), found, account, {})
    causes = with_slow_lines(no_workers(seen), found, account)
    move = move_of_run(move_of(found, found.loaders[0]), causes, 2.0)
    return replace(found, account=with_causes(replace(account, causes=causes)), next_move=move, started="train.py")


def test_where_workers_bring_nothing_cheaper_samples_are_what_is_told_and_the_next_step() -> None:
    found = _judged(_short_samples())
    told = said(found.account)  # type: ignore[arg-type]
    assert "Nothing" not in told
    assert (
        "Workers would hardly help. Cheaper samples, or all of a batch at once (__getitems__), could save up to 3.00 s "
        "(predicted, not tried)." in told
    )
    text = next_move(found.next_move) or ""
    assert text.startswith("Next: make DS.__getitem__ cheaper") and "Workers would hardly help" in text
    trains = replace(found, verdict=Verdict("data", loader=1, trains=True))
    assert "`pipebench advise train.py`" in (next_command(trains, of_command=False) or "")


@pytest.mark.parametrize(("stage", "samples"), [("DS.__getitems__", 4), ("DS.__getitem__", 1)])
def test_a_dataset_that_gives_whole_batches_is_not_asked_to_do_so(stage: str, samples: int) -> None:
    told = said(_judged(_short_samples(stage=stage, samples=samples)).account)  # type: ignore[arg-type]
    assert "Cheaper samples could save up to 3.00 s" in told


@pytest.mark.parametrize(
    ("stage", "said_so"),
    [("fetch", "let the dataset give the samples"), ("TensorDataset.__getitem__", "give TensorDataset the indices")],
)
def test_torchs_own_work_for_each_sample_is_saved_by_whole_batches(stage: str, said_so: str) -> None:
    found = _judged(_short_samples(stage=stage))
    assert (next_move(found.next_move) or "").startswith(f"Next: {said_so} of a batch at once")
    for whole in ({"shards": 0}, {"batch_size": None}):  # a stream, and indices of batches from the sampler
        other = _short_samples(stage=stage)
        other = _judged(replace(other, loaders=(replace(other.loaders[0], **whole),)))  # type: ignore[arg-type]
        assert "__getitems__" not in said(other.account)  # type: ignore[arg-type]
        assert f"Next: make {stage} cheaper" in (next_move(other.next_move) or "")


@pytest.mark.parametrize("title", ["a dict", ""])
def test_the_row_says_what_the_first_sentence_says(title: str) -> None:
    found = _judged(_short_samples(_line(0.8, title)))
    assert found.account is not None
    saved = 0.9 * 0.8 * 3.0 if title else 3.0
    assert found.account.causes[0].recoverable_s == pytest.approx(saved)
    assert found.account.rows[0].recoverable_s == pytest.approx(saved)
    told = said(found.account)
    assert ("72 % of making samples goes to ds.py:19" in told) == ("about 2.16 s" in told) == bool(title)
    assert "num_workers" not in told and told.endswith("help.") == bool(title)


def test_a_row_of_which_a_line_saves_more_than_workers_says_so() -> None:
    cause = Cause("no-workers", 3.0, 2.9, 1, {"slow_line": 19, "workers_s": 1.0})
    (row,) = with_causes(Account(9.0, (ROW,), (cause,))).rows
    assert (row.recoverable_s, row.reason) == (2.9, "faster-loading")
    (row,) = with_causes(Account(9.0, (ROW,), (replace(cause, recoverable_s=1.0, values={}),))).rows
    assert row == ROW
    other = replace(ROW, loader=2)
    assert with_causes(Account(9.0, (other,), (cause,))).rows == (other,)


def test_the_row_of_a_wait_for_a_lock_says_what_is_saved_without_it() -> None:
    waits = AccountRow("wait-for-worker", 7.7, 1, 7.7, "faster-loading")
    (row,) = with_causes(Account(13.0, (waits,), (Cause("shared-lock", 7.7, 4.1, 1),))).rows
    assert row.recoverable_s == 4.1


def test_workers_that_are_not_certain_to_help_are_promised_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _short_samples()
    costs = (replace(found.costs[0], hand_over_s=0.0001),)
    slow = replace(made(cpu=0.001, workers=0), hand_over_s=0.0009, tensors=2.0, loader=1, step_s=(0.0001,) * 8)
    for one in (costs, (slow,)):
        told = _judged(replace(found, costs=one))
        assert told.account is not None and told.next_move is not None
        promised = "num_workers" in said(told.account)
        assert promised == (told.next_move.action == "set-num-workers")


# Loops that do not train


def _slow_validation(**how: Any) -> Planted:
    run = Planted()
    run.loader(workers=0, passes=3, make_batch=20, forward=40)
    run.loader(2, trains=False, passes=12, workers=0, make_batch=280, other=5, **how)
    return run


def test_slow_loading_of_a_loop_that_does_not_train_comes_before_that_it_runs_often() -> None:
    account = _slow_validation().account(2)
    cause = account.causes[0]
    assert cause.code == "validation" and cause.values["waits_s"] == pytest.approx(12 * 0.28)
    told = said(account)
    assert told.index("could be saved by faster loading") < told.index("half as many would save")
    move = move_of_run(None, account.causes, 2.0)
    assert move is not None and (move.action, move.loader) == ("load-validation-faster", 2)
    (row,) = (one for one in account.rows if one.code == "validation")
    assert row.recoverable_s == pytest.approx(12 * 0.28)


def test_its_line_is_named_and_its_stages_are_shown() -> None:
    values: dict[str, str | int | float] = {
        "passes": 12, "workers": 0, "waits_s": 3.1, "by_workers_s": 1.5, "made_s": 3.1, "seldom_s": 1.6, "every": 25.0,
        "stage": "DS.__getitem__", "kind": "getitem", "includes_read": 0, "stage_share": 0.99,
    }  # fmt: skip
    loop, untrained = loader(workers=0), loader(loader=2, workers=0, training=False)
    line, stage = _line(0.98, "a dict"), StageResult("DS.__getitem__", "getitem", 2, 400, 0.001, 0.99)
    found = replace(
        result(loop),
        loaders=(loop, untrained),
        drilled=(DrilledRow(2, "DS.__getitem__", "getitem", 1.0, 90, 0, (line,)),),
    )
    row = AccountRow("validation", 3.3, 2, 1.5, "faster-loading", passes=12)
    account = Account(6.0, (ROW, row))
    (cause,) = with_slow_lines([Cause("validation", 3.3, 3.1, 2, values)], found, account)
    told = said(replace(account, causes=(cause,)))
    assert (
        "passes over loader 2. 99 % of loading is DS.__getitem__ (getitem). 98 % of making samples goes to ds.py:19, "
        "which is known to be slow. A change to a dict could save about 3.04 s (not tried). Up to 3.10 s of that could "
        "be saved by faster loading and cheaper samples, 1.50 s of it by workers for loader 2 (predicted, not tried). "
        "One came after about 25 iterations" in told
    )
    judged = replace(
        found, stages=(*found.stages, stage), account=with_causes(replace(account, causes=(cause,))), notes=(),
        verdict=Verdict("data", wait_share=0.3, wait_s=0.001, iteration_s=0.003, loader=1, loaders=2), hand_off=None,
        next_move=move_of_run(None, (cause,), 2.0), status=0, started="train.py", spans=(), reads=(),
    )  # fmt: skip
    text = " ".join(layout.text(parts(judged), width=80).split())
    assert "Loading in loader 2:" in text and "Loading in loader 1:" not in text and "about 3.10 less" in text


# Tiny runs


def test_of_a_tiny_run_that_needs_no_change_no_command_is_named() -> None:
    account = Account(1.3, (AccountRow("before-loops", 1.2), replace(ROW, s=0.01), AccountRow("exit", 0.09)))
    found = replace(result(loader(workers=0)), account=account, verdict=Verdict("data", loader=1), started="train.py")
    assert next_command(found, of_command=False) is None
    told = " ".join(layout.text(watch_account.causes(found), width=80).split())
    assert told == "Nothing in the loops of this run, 1.30 s long, is worth a change: its loops took 10.0 ms."
    long = replace(account, rows=(*account.rows, AccountRow("forward", 5.0, 1)), wall_s=6.3)
    assert said(long).endswith("is worth a change.")


@pytest.mark.parametrize(("after", "told"), [(600, False), (1500, True)])
def test_the_end_of_a_process_with_torch_is_no_cause(after: int, told: bool) -> None:
    run = Planted()
    run.loader(workers=0, **TRAINS)
    run.outside(after, "after")
    assert ("after-loops" in run.causes()) is told


def test_a_table_of_lines_that_has_none_is_left_out() -> None:
    found = replace(result(loader(workers=0)), drilled=(DrilledRow(1, "DS.__getitem__", "getitem", 0.9, 30, 30, ()),))
    assert watch_drilled.all_drilled(found, {1}, full=False) == []
    line = replace(found, drilled=(DrilledRow(1, "DS.__getitem__", "getitem", 0.9, 30, 3, (_line(0.9),)),))
    assert watch_drilled.all_drilled(line, {1}, full=False)


def test_what_a_batch_is_received_late_for_its_worker_is_a_wait_for_it() -> None:
    """A worker that computes keeps its interpreter's lock, and so the thread that sends the descriptors waits."""
    rows = (
        AccountRow("receive", 5.0, 1, 4.0, "smaller-hand-off"),
        AccountRow("unpickle", 0.5, 1, 0.2, "smaller-hand-off"),
        AccountRow("receive", 3.0, 2),
        AccountRow("wait-for-worker", 1.0, 1, 0.5, "faster-loading"),
    )
    cause = Cause("stage", 6.0, 5.5, 1, {"busy": 0.95, "late_s": 4.8})
    other = Cause("callbacks", 6.0, 5.5, 2, {"early_s": 0.01, "late_s": 0.04})
    found = with_causes(Account(10.0, rows, causes=(cause, cause, other))).rows
    assert [(one.code, one.loader) for one in found] == [(one.code, one.loader) for one in rows]
    assert [one.s for one in found] == pytest.approx([0.2, 0.5, 3.0, 5.8])
    assert [one.recoverable_s for one in found] == [pytest.approx(0.2), 0.2, None, pytest.approx(5.3)]
    without = with_causes(Account(9.0, rows[:3], causes=(cause,))).rows
    assert without[0] == AccountRow("wait-for-worker", pytest.approx(4.8), 1, pytest.approx(4.8), "faster-loading")  # type: ignore[arg-type]
