"""Loops that share the training: in step, or around it. All else is said to be loops that do not train."""

from __future__ import annotations

from dataclasses import replace

import pytest
from planted_runs import MS, TRAINS, Planted, said

from pipebench.results.watched import WatchResult
from pipebench.watch.read.gather import Process
from pipebench.watch.read.summary import summarise
from pipebench.watch.record.lines import (
    Line,
    LoaderFound,
    LoadersTogether,
    LoopSums,
    Moment,
    PassBegun,
    ProcessStarted,
)
from pipebench.watch.record.options import WatchOptions
from pipebench.watch.record.spent import ROWS, SpentInPass, TimeSpent

CHUNKS, INNER = 5, 10


def _rows(**spent: int) -> list[int]:
    return [spent.get(name.replace("-", "_"), 0) * MS for name in ROWS]


def _summary(*lines: Line, loader: int | None = None) -> WatchResult:
    script = Process([ProcessStarted(1, "script", 0), *lines, Moment("end", 10_000 * MS)])
    return summarise([script], WatchOptions(loader=loader), 0, 4, lived=(0, 10_000 * MS))


def _loader(number: int, workers: int = 0) -> LoaderFound:
    return LoaderFound(number, "Photos", workers, 4, "fork", 2)


def _chunks() -> list[Line]:
    """Each of 5 chunks is waited for 90 ms; then an inner loader trains on it for 10 iterations of 2 ms."""
    lines: list[Line] = [_loader(1, 2), _loader(2), PassBegun(1, 0, 0)]
    now = 0
    for chunk in range(CHUNKS):
        first = 90 * MS if chunk == 0 else None
        outer = LoopSums(1, 0, chunk, now, 1, 0, [90 * MS, 0, 0, 0, 0, 0, 0], first)
        rows = _rows(start_up=90) if chunk == 0 else _rows(wait_for_worker=90)
        lines += [outer, TimeSpent(now, now + 90 * MS, 0, "between", [SpentInPass(1, 0, rows)])]
        now += 90 * MS
        inner = LoopSums(2, chunk, 0, now, INNER, INNER, [0, 0, 10 * MS, 10 * MS, 0, 0, 0], 0)
        rows = _rows(forward=10, backward=10)
        lines += [PassBegun(2, chunk, now), inner]
        lines.append(TimeSpent(now, now + 20 * MS, 0, "between", [SpentInPass(2, chunk, rows)]))
        now += 20 * MS
    return lines


def test_a_loop_around_one_that_trains_is_a_part_of_training() -> None:
    result = _summary(*_chunks())
    assert result.account is not None
    waits = {one.code: one.s for one in result.account.rows if one.loader == 1}
    assert waits == {"start-up": pytest.approx(0.09), "wait-for-worker": pytest.approx(0.36)}
    assert (result.loaders_in_loop, result.iterations) == ((1, 2), CHUNKS * INNER)
    assert (result.verdict.limit, result.verdict.loader) == ("data", 1)


def test_an_iterator_that_training_asks_now_and_then_is_not_around_it() -> None:
    result = _summary(*_chunks(), LoadersTogether(2, 1))
    assert result.account is not None
    assert {one.code for one in result.account.rows if one.loader == 1} == {"validation"}
    assert result.loaders_in_loop == (2,)


def test_a_loop_in_another_thread_is_around_nothing() -> None:
    chunks = [replace(one, beside=True) if isinstance(one, LoopSums) and one.loader == 1 else one for one in _chunks()]
    assert _summary(*chunks).loaders_in_loop == (2,)


def test_of_a_loader_that_also_trains_only_the_other_passes_are_counted() -> None:
    run = Planted()
    run.loader(**TRAINS, passes=3)
    run.lines += [
        PassBegun(1, 3, run.now),
        LoopSums(1, 3, 0, run.now, 50, 0, [600 * MS, 0, 400 * MS, 0, 0, 0, 0], 0),
        TimeSpent(run.now, run.now + 1000 * MS, 0, "between", [SpentInPass(1, 3, _rows(make_batch=600, forward=400))]),
    ]
    run.now += 1000 * MS
    text = said(run.account())
    assert "Loops that do not train (such as validation) took 1.00 s of the run's 4.10 s (24 %): 1 pass over" in text


def test_start_up_of_a_loader_that_also_trains_is_not_only_that_of_other_loops() -> None:
    run = Planted()
    run.loader(**TRAINS, passes=3, start_up=900)
    run.lines.append(PassBegun(1, 3, run.now))
    run.lines.append(LoopSums(1, 3, 0, run.now, 50, 0, [900 * MS, 0, 400 * MS, 0, 0, 0, 0], 900 * MS))
    spent = SpentInPass(1, 3, _rows(start_up=900, forward=400))
    run.lines.append(TimeSpent(run.now, run.now + 1300 * MS, 0, "between", [spent]))
    run.now += 1300 * MS
    assert run.causes()["start-up"].values["in_validation"] == 0


def _turns(loader: int, trained: int = 0) -> list[Line]:
    first = LoopSums(loader, 0, 0, 0, 1, trained, [MS, 0, 0, 0, 0, 0, 0], MS)
    later = LoopSums(loader, 0, 1, MS, 99, 99 * trained, [99 * MS, 0, 0, 0, 0, 0, 0])
    rows = _rows(make_batch=100, backward=trained)
    return [_loader(loader), PassBegun(loader, 0, 0), first, later, TimeSpent(0, 0, 0, "between", [
        SpentInPass(loader, 0, rows)])]  # fmt: skip


@pytest.mark.parametrize("together", [((1, 2), (2, 3), (3, 4)), ((3, 4), (1, 2), (2, 3)), ((1, 4), (4, 2), (3, 2))])
@pytest.mark.parametrize("trains", [1, 4])
def test_many_loaders_in_step_share_one_loop(together: tuple[tuple[int, int], ...], trains: int) -> None:
    lines = [line for loader in range(1, 5) for line in _turns(loader, trained=int(loader == trains))]
    result = _summary(*lines, *(LoadersTogether(*pair) for pair in together))
    assert (result.loaders_in_loop, result.iterations) == ((1, 2, 3, 4), 100)
    assert result.account is not None and "validation" not in {one.code for one in result.account.rows}


def test_a_loader_that_is_asked_for_alone_does_not_train_for_that() -> None:
    for loader in (None, 2):
        result = _summary(*_turns(1, trained=1), *_turns(2), loader=loader)
        assert result.account is not None
        assert {one.code for one in result.account.rows if one.loader == 2} == {"validation"}
