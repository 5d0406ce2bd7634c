"""A line that makes its loader anew for other data: workers cannot live on, but there may be none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from made_up_loop import loader
from planted_runs import Planted, said
from render import made_up

from pipebench.remedies import persistent_workers
from pipebench.render.watch_verdict import next_move
from pipebench.watch.read.gather import Process
from pipebench.watch.read.moves import in_its_words
from pipebench.watch.read.moves_of_run import move_of_run
from pipebench.watch.record.lines import CodePlace, FetchSums, LoaderFound, PassBegun


def _clients(remade: str, start_up: int = 400, making_s: float = 0.5, **how: Any) -> Planted:
    """Ten passes, each of a loader that is made anew. Its two workers make batches for `making_s` in all."""
    run = Planted()
    run.loader(passes=10, start_up=start_up, end_of_pass=100, wait_for_worker=50, forward=100, **how)
    run.lines = [
        replace(one, again=one.number, remade=remade if one.number else "same") if isinstance(one, PassBegun) else one
        for one in run.lines
    ]
    for number in range(2):
        run.worker(number)
        *rest, sums, threads, end = run.workers[number].lines
        assert isinstance(sums, FetchSums)
        sums = replace(sums, batches=499, busy_ns=int(making_s / 2 * 1e9))
        run.workers[number] = Process([*rest, sums, threads, end])
    return run


def _move(account: Any, **how: Any) -> str:
    result = replace(made_up.watched(), loaders=(loader(again=9, **how),), loaders_in_loop=(1,))
    return next_move(in_its_words(move_of_run(None, account.causes, 4.0), result)) or ""


@pytest.mark.parametrize("remade", ["same", "alike"])
def test_a_loader_that_is_made_anew_is_to_be_made_once(remade: str) -> None:
    account = _clients(remade).account()
    alike = remade == "alike"
    once = "Making it once (if its datasets hold the same samples)," if alike else "Making it once,"
    assert f"The loader was made anew 9 times. {once} with persistent_workers=True, could save about" in said(account)
    assert ("if its datasets hold the same samples" in _move(account, remade=remade)) == alike
    assert "make loader 1 once" in _move(account, remade=remade)


def _folds(others: tuple[int, ...], remade: str = "same") -> Planted:
    """Ten passes of a loader that is made anew for each, with other data in the passes `others`."""
    run = _clients(remade)
    run.lines = [
        replace(one, others=sum(one.number >= each for each in others)) if isinstance(one, PassBegun) else one
        for one in run.lines
    ]
    return run


@pytest.mark.parametrize(
    ("remade", "data", "if_alike"),
    [
        ("same", "the same data", ""),
        ("alike", "data that looks the same", " (if its datasets hold the same samples)"),
    ],
)
def test_a_loader_that_is_made_anew_for_each_epoch_of_a_fold_is_to_be_made_once_for_each(
    remade: str, data: str, if_alike: str
) -> None:
    whole, account = _clients(remade).account(), _folds((3, 6), remade).account()
    assert (
        f"The loader was made anew 9 times, 7 of them for {data}. Making it once for each data set{if_alike}, "
        "with persistent_workers=True, could save about" in said(account)
    )
    starts = [next(one for one in each.causes if one.code == "start-up") for each in (whole, account)]
    saved = [one.recoverable_s or 0.0 for one in starts]
    assert saved[1] == pytest.approx(saved[0] * 7 / 9)
    assert "make loader 1 once for each data set, before the epochs, with" in _move(account, remade=remade, others=2)
    assert "no-workers" not in said(account) and "cannot live on" not in said(account)


def test_where_most_is_other_data_workers_cannot_live_on() -> None:
    assert "for other data: workers cannot live on." in said(_folds((1, 2, 4, 5, 7)).account())


def test_of_other_data_no_workers_are_the_change_where_they_cost_more_than_they_make() -> None:
    """The loop waits 5.5 s, and the workers make all batches in 0.5 s."""
    account = _clients("other").account()
    cause = next(one for one in account.causes if one.code == "start-up")
    assert (cause.s, cause.recoverable_s) == (pytest.approx(5.0), pytest.approx(5.0))
    text = said(account)
    assert (
        "The loader was made anew 9 times, for other data: workers cannot live on. In all, the loop waited 5.50 s for "
        "its workers, and they made its batches in 500 ms. "
        "num_workers=0 could save about 5.00 s (predicted, not tried)." in text
    )
    assert "once" not in text and "persistent" not in text
    assert _move(account, remade="other").startswith(
        "Next: set num_workers to 0 for loader 1. It is made anew for other"
    )


def test_of_other_data_the_times_are_told_also_where_a_library_made_the_loader() -> None:
    run = _clients("other")
    made = [CodePlace("/lib/python3.11/site-packages/transformers/trainer.py", 1)]
    run.lines = [replace(one, made=made) if isinstance(one, LoaderFound) else one for one in run.lines]
    text = said(run.account())
    assert "The loader was made anew 9 times, for other data: workers cannot live on." in text


def test_of_other_data_nothing_is_promised_where_making_takes_longer_than_the_waits() -> None:
    account = _clients("other", making_s=8.0).account()
    cause = next(one for one in account.causes if one.code == "start-up")
    assert cause.recoverable_s is None and all(one.recoverable_s is None for one in account.rows if one.s == cause.s)
    assert "workers cannot live on." in said(account) and "num_workers=0" not in said(account)
    assert "once" not in said(account)


def test_workers_that_live_on_are_not_tried_for_other_data() -> None:
    class Seen:
        workers, settings, watched, without_start = 2, {}, made_up.watched(), 2.0

        def __init__(self, remade: str, others: int = 0) -> None:
            self.loader = loader(again=9, remade=remade, others=others)

        def cause(self, code: str) -> None:
            return None

    assert persistent_workers.propose(Seen("alike"), ()) is not None  # type: ignore[arg-type]
    assert persistent_workers.propose(Seen("other"), ()) is None  # type: ignore[arg-type]
    assert persistent_workers.propose(Seen("alike", others=2), ()) is None  # type: ignore[arg-type]
