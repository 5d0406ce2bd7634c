"""What is said of loops that do not train: the size of their batches, and batches that are kept for training."""

from __future__ import annotations

from dataclasses import replace

import pytest
from planted_runs import TRAINS, Planted, said

from pipebench.render.watch_verdict import next_move
from pipebench.watch.read.moves import move_of_run
from pipebench.watch.record.lines import LoaderFound


@pytest.mark.parametrize(("batch", "said_so"), [(1, True), (2, True), (3, False), (None, False)])
def test_smaller_batches_in_validation_are_told(batch: int | None, said_so: bool) -> None:
    """Those of training have four samples."""
    run = Planted()
    run.loader(**TRAINS)
    run.loader(2, trains=False, wait_for_worker=500, other=500)
    place = next(n for n, one in enumerate(run.lines) if isinstance(one, LoaderFound) and one.loader == 2)
    run.lines[place] = replace(run.lines[place], batch_size=batch)
    text = said(run.account())
    assert ("and 4 in training: larger ones cost less." in text) is said_so


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


def test_where_faster_loading_saves_more_it_stays_the_move() -> None:
    run = Planted()
    run.loader(**TRAINS)
    run.loader(2, trains=False, passes=4, make_batch=900, other=100, workers=0)
    move = move_of_run(None, run.account().causes, 2.0)
    assert move is not None and move.action == "load-validation-faster"
