"""What is said of loops that do not train: the size of their batches, and batches that are kept for training."""

from __future__ import annotations

from dataclasses import replace

import pytest
from planted_runs import TRAINS, Planted, said

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
