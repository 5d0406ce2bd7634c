"""Small batches of which a step takes several, and what handing batches over could save."""

from __future__ import annotations

from dataclasses import replace

import pytest
from planted_runs import MS, TRAINS, Planted, said

from pipebench.render.watch_causes import SENTENCES
from pipebench.render.watch_verdict import next_move
from pipebench.watch.read.gather import Process
from pipebench.watch.read.moves_of_run import move_of_run
from pipebench.watch.record.lines import FetchSums, LoopSums, Pickled

PICKLED = Pickled(50 * MS, 40 * MS, 50, 50 * 424)


def _run(steps: int, samples: int = 1, busy: float = 0.1) -> Planted:
    run = Planted()
    run.loader(**TRAINS, receive=200, unpickle=100)
    run.worker(busy=busy, cpu=1.0, pickled=PICKLED)
    run.lines = [replace(one, steps=steps) if isinstance(one, LoopSums) else one for one in run.lines]
    lines = (
        replace(one, samples=samples * one.batches) if isinstance(one, FetchSums) else one
        for one in run.workers[0].lines
    )
    run.workers = [Process(list(lines))]
    return run


def _saved(run: Planted, *codes: str) -> float:
    return sum(one.recoverable_s or 0.0 for one in run.account().rows if one.code in (codes or ("receive", "unpickle")))


def test_they_are_a_cause_that_the_row_does_not_contradict() -> None:
    account = _run(steps=25).account()
    cause = account.causes[0]
    assert cause.code == "small-batches" and cause.recoverable_s == pytest.approx(0.225)
    assert sum(one.recoverable_s or 0.0 for one in account.rows if one.code in ("receive", "unpickle")) == (
        pytest.approx(0.225)
    )
    text = said(account)
    assert text.startswith(
        "Batches of 1 sample, about 4 for each step of the optimiser: handing 100 batches over one by one took 300 ms"
    )
    assert "Nothing" not in text and "could save about 225 ms of that (predicted, not tried)" in text
    assert "larger, as far as the memory allows" in (next_move(move_of_run(None, account.causes, 2.0)) or "")


@pytest.mark.parametrize(("steps", "samples"), [(100, 1), (0, 1), (25, 8)])
def test_with_a_step_for_each_or_with_more_samples_they_are_none(steps: int, samples: int) -> None:
    assert "small-batches" not in _run(steps, samples).causes()


def test_a_row_saves_no_more_than_the_size_of_its_batches_explains() -> None:
    """The rest is a wait for a core, which a smaller batch waits for, too."""
    assert _saved(_run(steps=100)) < 0.05
    never_rest = _run(steps=100, busy=1.0)  # they wait for these workers
    assert _saved(never_rest) < 0.05
    assert _saved(never_rest, "receive", "unpickle", "wait-for-worker") == pytest.approx(0.3)


def test_where_handing_them_over_is_little_training_tells_how_small_they_are() -> None:
    run = _run(steps=4)
    (cause,) = (one for one in run.account().causes if one.code == "training")
    assert (cause.values["samples"], cause.values["of_step"]) == (1, 25)
    text = SENTENCES["training"](cause, cause.values, "1.00 s")
    assert text.endswith(
        " A batch has 1 sample, and a step of the optimiser takes about 25 batches: larger ones may take less for each "
        "sample (not tried)."
    )
