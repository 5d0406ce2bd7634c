"""What workers do anew in their first batch, of a loader that is made anew for other data. The records are made up."""

from __future__ import annotations

from typing import Any

import pytest
from planted_runs import MS, TRAINS, Planted, said

from pipebench.render.watch_verdict import next_move
from pipebench.watch.read.first_batches import FirstBatch, first_batches
from pipebench.watch.read.gather import Process
from pipebench.watch.read.moves_of_run import move_of_run
from pipebench.watch.record.lines import FetchSums, NewStage, ProcessStarted, StageName


def _worker(pid: int, first: int, second: int = 10, parses: float = 0.9, batches: int = 1) -> Process:
    def line(began: int, spent: int, parsed: float) -> FetchSums:
        rows = {1: int((1 - parsed) * spent) * MS, 2: int(parsed * spent) * MS}
        return FetchSums(1, began, began + spent * MS, batches=batches, samples=4, busy_ns=spent * MS, stages_ns=rows)

    named = StageName("getitem", "Papers.__getitem__"), StageName("function", "Papers.neigh")
    return Process([
        ProcessStarted(pid, "worker", 0, 1, 0, "fork"), *(NewStage(nth, one) for nth, one in enumerate(named, 1)),
        line(0, first, parses), line(first * MS, second, 0.0), FetchSums(1, 900 * MS, 999 * MS, batches=9, samples=36),
    ])  # fmt: skip


def _found(workers: list[Process]) -> FirstBatch | None:
    class Run:
        def workers_of(self, loader: int) -> list[Process]:
            return workers

    run: Any = Run()
    return first_batches(run, 1)


def test_the_row_that_takes_it_is_told() -> None:
    found = _found([_worker(pid, 510) for pid in range(4)])
    assert found is not None and found.more_s == pytest.approx(0.5)
    assert (found.name, found.kind) == ("Papers.neigh", "function") and found.share == pytest.approx(0.918)


@pytest.mark.parametrize(
    "workers",
    [
        pytest.param([_worker(pid, 510) for pid in range(3)], id="few workers"),
        pytest.param([*(_worker(pid, 510) for pid in range(4)), _worker(9, 12)], id="not in each"),
        pytest.param([_worker(pid, 25) for pid in range(4)], id="little"),
        pytest.param([_worker(pid, 510, batches=3) for pid in range(4)], id="no single batches"),
    ],
)
def test_else_nothing_is_told(workers: list[Process]) -> None:
    assert _found(workers) is None


def test_a_loader_made_anew_for_other_data_is_told_what_to_make_first(monkeypatch: pytest.MonkeyPatch) -> None:
    found = FirstBatch(0.2, "Papers.neigh", "function", 0.95)
    monkeypatch.setattr("pipebench.watch.read.pass_causes.first_batches", lambda run, loader: found)
    monkeypatch.setattr("pipebench.watch.read.described.remade", lambda run, loader: "other")
    run = Planted()
    run.loader(**TRAINS, start_up=250, passes=4, cpu=900)
    run.worker(busy=0.2)
    monkeypatch.setattr("pipebench.watch.read.each_loader.remade", lambda run, loader: "other", raising=False)
    account = run.account()
    (cause,) = (one for one in account.causes if one.code == "start-up")
    assert cause.recoverable_s == pytest.approx(0.6)
    text = said(account)
    assert "took 200 ms more than its second one, 95 % of that in Papers.neigh (function). Making once, in the" in text
    move = next_move(move_of_run(None, account.causes, 4)) or ""
    assert move.startswith("Next: let the script make, once and before loader 1, what each worker makes anew in its")
