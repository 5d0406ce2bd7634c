"""What is said of loops that do not train: the size of their batches, and batches that are kept for training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from made_up_loop import loader, result
from planted_runs import MS, TRAINS, Planted, said

from pipebench.render.watch_verdict import next_move
from pipebench.results.next_move import NextMove
from pipebench.watch.read.gather import Process
from pipebench.watch.read.moves import in_its_words
from pipebench.watch.read.moves_of_run import move_of_run
from pipebench.watch.record.lines import (
    FetchSums,
    HandedOver,
    Line,
    LoaderFound,
    LoopSums,
    PassBegun,
    ProcessStarted,
)
from pipebench.watch.record.spent import TimeSpent
from pipebench.watch.record.worker_lines import ToHandOver


@pytest.mark.parametrize(("batch", "said_so"), [(1, True), (2, True), (3, False), (None, False)])
def test_smaller_batches_in_validation_are_told(batch: int | None, said_so: bool) -> None:
    """Those of training have four samples."""
    run = Planted()
    run.loader(**TRAINS)
    run.loader(2, trains=False, wait_for_worker=500, other=500)
    place = next(n for n, one in enumerate(run.lines) if isinstance(one, LoaderFound) and one.loader == 2)
    run.lines[place] = replace(run.lines[place], batch_size=batch)
    text = said(run.account())
    assert ("and 4 in training: larger ones may cost less." in text) is said_so


def test_batches_that_are_kept_before_a_loop_that_trains_are_told_to_be_taken_in_it() -> None:
    """As of `batches = list(loader)`."""
    run = Planted()
    run.loader(trains=False, wait_for_worker=1500)
    run.loader(0, workers=0, **TRAINS)
    (cause,) = (one for one in run.causes().values() if one.code == "validation")
    assert cause.values["kept"]
    assert "If it uses these, take them from the loader in the training loop" in said(run.account())


@pytest.mark.parametrize(("passes", "told"), [(7, True), (1, False)])
def test_validation_inside_passes_of_training_could_come_less_often(passes: int, told: bool) -> None:
    run = Planted()
    run.loader(**TRAINS)
    run.loader(2, trains=False, passes=passes, make_batch=10, other=990, workers=0)
    account = run.account()
    (cause,) = (one for one in account.causes if one.code == "validation")
    text = said(account)
    assert ("One came after about 14 iterations of training: half as many would save about 3.00 s" in text) is told
    assert (cause.recoverable_s == pytest.approx(3.0)) is told
    move = move_of_run(None, account.causes, 2.0)
    assert move is not None
    assert (move.action == "validate-less-often") is told
    if told:
        assert next_move(move) == "Next: validate less often: the loops that do not train (loader 2) took 7.00 s."


def test_a_check_before_the_first_step_is_none_that_comes_after_iterations() -> None:
    run = Planted()
    run.loader(2, trains=False, make_batch=10, other=990, workers=0)
    run.loader(**TRAINS)
    later = Planted()
    later.loader(2, trains=False, passes=6, make_batch=10, other=990, workers=0)
    begun = (one for one in later.lines if isinstance(one, (LoopSums, PassBegun, TimeSpent)))
    run.lines += [_later(one, run.now) for one in begun if getattr(one, "where", "") != "before"]
    run.now += 6000 * MS
    assert "One came after about 17 iterations of training: half as many" in said(run.account())  # 100 by 6, not 7


def _later(one: Line, ns: int) -> Line:
    """The line of a pass over loader 2, the first of which was before."""
    if isinstance(one, TimeSpent):
        passes = [each._replace(number_of_pass=each.number_of_pass + 1) for each in one.passes]
        return replace(one, begin=one.begin + ns - 100 * MS, end=one.end + ns - 100 * MS, passes=passes)
    if isinstance(one, PassBegun):
        return replace(one, begin=one.begin + ns, number=one.number + 1)
    assert isinstance(one, LoopSums)
    return replace(one, begin=one.begin + ns, number_of_pass=one.number_of_pass + 1)


def test_where_faster_loading_saves_more_it_stays_the_move() -> None:
    run = Planted()
    run.loader(**TRAINS)
    run.loader(2, trains=False, passes=4, make_batch=900, other=100, workers=0)
    move = move_of_run(None, run.account().causes, 2.0)
    assert move is not None and move.action == "load-validation-faster"


def _small(
    other: int = 2000, waits: int = 100, here: Sequence[int] = (1000, 1000), trained: int = 4000, batch: int = 1,
    passes: int = 1,
) -> Planted:  # fmt: skip
    """Four samples of `trained` bytes in a batch of training, 2.5 ms each; `here` are the bytes of batches besides."""
    run = Planted()
    run.loader(**TRAINS)
    run.worker(busy=0.1, handed=_handed([trained]))
    run.loader(2, trains=False, wait_for_worker=waits, other=other, passes=passes)
    place = next(n for n, one in enumerate(run.lines) if isinstance(one, LoaderFound) and one.loader == 2)
    run.lines[place] = replace(run.lines[place], batch_size=batch)
    if here:
        made = FetchSums(2, 1, run.now, batches=100, samples=100, busy_ns=MS, handed=_handed(here))
        run.workers.append(Process([ProcessStarted(30, "worker", 0, 2, 0, "fork"), made]))
    return run


def _handed(sizes: Sequence[int]) -> list[HandedOver]:
    return [HandedOver(n, 0, n, 0, MS, 0, MS, 1, 100, 1, size, 0, 0, storages=1) for n, size in enumerate(sizes)]


def test_larger_batches_are_the_move_where_small_ones_cost_most() -> None:
    account = _small().account()
    (cause,) = (one for one in account.causes if one.code == "validation")
    # 100 samples of 20 ms, where training takes 2.5 ms for one
    assert cause.recoverable_s == cause.values["larger_s"] == pytest.approx(2.0 - 100 * 0.0025)
    assert (
        "A batch has 1 sample there, and 4 in training: larger ones may cost less. Besides loading, a sample takes "
        "20.0 ms there, and 2.50 ms in training. Larger batches could save about 1.75 s (predicted, not tried)."
    ) in said(account)
    move = move_of_run(None, account.causes, 2.0)
    assert move is not None and next_move(replace(move, file="/home/me/val_tta.py", line=63)) == (
        "Next: raise batch_size for the loops that do not train (loader 2, val_tta.py:63), as far as the memory allows."
    )
    assert "raise per_device_eval_batch_size in TrainingArguments" in (
        next_move(replace(move, made_by="transformers")) or ""
    )


@pytest.mark.parametrize(
    ("more", "mentioned"),
    [
        ({"here": [1600, 1600]}, False),  # whole images, and crops in training
        ({"here": [900, 1100]}, False),  # samples of several sizes do not go into one batch
        ({"here": []}, True),  # no batch was counted
        ({"batch": 2, "here": [2000], "other": 500}, False),  # a sample costs no more than in training
    ],
)
def test_larger_batches_save_only_where_their_samples_are_those_of_training_and_cost_more(
    more: dict[str, Any], mentioned: bool
) -> None:
    account = _small(**more).account()
    (cause,) = (one for one in account.causes if one.code == "validation")
    assert "larger_s" not in cause.values and ("batch" in cause.values) is mentioned
    move = move_of_run(None, account.causes, 2.0)
    assert move is None or move.action != "validate-in-larger-batches"


def test_loading_stays_the_move_where_the_loops_that_do_not_train_mostly_wait() -> None:
    move = move_of_run(None, _small(other=600, waits=2000).account().causes, 2.0)
    assert move is not None and move.action == "load-validation-faster"


def test_sizes_of_samples_are_known_without_workers_too() -> None:
    run = _small(here=[])
    script: list[Line] = [FetchSums(2, 1, run.now, batches=100, samples=100, held=ToHandOver(2, 2, 2000, 0))]
    run.lines += script
    assert run.causes()["validation"].values["larger_s"] == pytest.approx(1.75)


def test_the_line_that_makes_the_loader_is_named() -> None:
    """Of moves that set something of a loader."""
    one = replace(loader(), loader=2, file="/home/me/train.py", line=40)
    for action, told in (
        ("keep-workers", "set persistent_workers=True for loader 2 (train.py:40)."),
        ("validate-in-larger-batches", "the loops that do not train (loader 2, train.py:40)"),
        ("load-validation-faster", "the loops that do not train (loader 2, train.py:40)"),
    ):
        move = in_its_words(NextMove(action, 2.0, loader=2), result(one))  # type: ignore[arg-type]
        assert told in (next_move(move) or "")
    move = in_its_words(NextMove("keep-workers", 2.0, loader=2), result(replace(one, again=3)))
    assert (next_move(move) or "").startswith("Next: make loader 2 (train.py:40) once, before the epochs, with")
