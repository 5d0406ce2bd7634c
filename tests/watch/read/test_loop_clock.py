"""The share of their time in which workers make batches: of the time of the loops over their loader."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pipebench.render.watch_notes import sentence
from pipebench.results.watched import WatchResult, WorkerResult
from pipebench.watch.read.gather import Process
from pipebench.watch.read.summary import summarise
from pipebench.watch.record.lines import (
    FetchSums,
    Line,
    LoaderFound,
    LoopSums,
    Moment,
    NewStage,
    PassBegun,
    ProcessStarted,
    StageName,
)
from pipebench.watch.record.options import WatchOptions
from pipebench.watch.record.spent import ROWS, SpentInPass, TimeSpent

MS = 1_000_000


class Run:
    """A run of which everything is known, in milliseconds. Loader 1 trains, loader 2 validates."""

    def __init__(self, workers: int = 1, persistent: bool = False) -> None:
        self.now, self.processes = 100, list[Process]()
        train = LoaderFound(1, "Photos", workers, 4, "fork", 2, persistent)
        self.lines: list[Line] = [ProcessStarted(1, "script", 0), train, LoaderFound(2, "Val", 0, 4, "none", None)]
        self.lines.append(TimeSpent(0, 100 * MS, 100 * MS, "before"))

    def begin(self, loader: int, number: int) -> None:
        self.lines.append(PassBegun(loader, number, self.now * MS))

    def loop(
        self, loader: int, number: int, *, first: int = 0, trains: bool = True, told: bool = True, **rows_ms: int
    ) -> None:
        """An iteration, with these rows of the account."""
        rows = [rows_ms.get(name.replace("-", "_"), 0) * MS for name in ROWS]
        begin, self.now = self.now, self.now + sum(rows) // MS
        phases = [sum(rows[:10]), *rows[10:16]]
        self.lines.append(LoopSums(loader, number, first, begin * MS, 1, int(trains), phases, wait_parts_ns=[0] * 9))
        if told:
            spent = [SpentInPass(loader, number, rows)]
            self.lines.append(TimeSpent(begin * MS, self.now * MS, 0, "between", spent))

    def worker(self, number: int, fetches: Sequence[tuple[int, int]], ends: int, batches: int = 1) -> None:
        """A worker that makes batches from one moment to another, each on one core."""
        sums: list[Line] = []
        cpu = 0
        for begin, end in fetches:
            cpu += (end - begin) * MS
            spent = (end - begin) * MS
            sums.append(
                FetchSums(
                    1, begin * MS, end * MS, batches, 4 * batches, 0, spent, spent, process_cpu_ns=cpu,
                    stages_ns={1: spent},
                )
            )  # fmt: skip
        started = ProcessStarted(20 + len(self.processes), "worker", 0, 1, number, "fork")
        stage = NewStage(1, StageName("decode", "load", True))
        self.processes.append(Process([started, stage, *sums, Moment("end", ends * MS)]))

    def result(self, warmup: int = 0) -> WatchResult:
        self.lines.append(Moment("end", self.now * MS))
        options, lived = WatchOptions(warmup=warmup), (0, self.now * MS)
        return summarise([Process(self.lines), *self.processes], options, 0, 4.0, lived=lived)

    def workers(self) -> tuple[WorkerResult, ...]:
        return self.result().workers


def test_workers_that_live_on_have_nothing_to_do_in_a_validation() -> None:
    run = Run(persistent=True)
    for number in range(2):
        run.begin(1, number)
        run.loop(1, number, wait_for_worker=900, backward=100)
        run.begin(2, number)
        run.loop(2, number, trains=False, other=1000)
    run.worker(0, [(100, 600), (600, 1100), (2100, 2600), (2600, 3100)], 4100)
    (found,) = run.workers()
    assert found.busy_share == pytest.approx(1.0) and found.cores == pytest.approx(1.0)


def test_a_validation_inside_the_training_is_no_rest_of_the_workers() -> None:
    run = Run()
    run.begin(1, 0)
    for number in range(2):
        run.loop(1, 0, wait_for_worker=900, backward=100)
        run.begin(2, number)
        run.loop(2, number, trains=False, other=1000)
    run.loop(1, 0, wait_for_worker=900, backward=100)
    run.worker(0, [(100, 1100), (2100, 2900), (4100, 5000)], 5100)
    (found,) = run.workers()
    assert found.busy_share == pytest.approx(2.7 / 3)


def test_a_loop_that_trains_inside_a_pass_is_a_part_of_it() -> None:
    """The workers of an outer loader rest while the inner loop trains on what they made."""
    run = Run()
    run.begin(1, 0)
    for number in range(2):
        run.loop(1, 0, trains=False, wait_for_worker=100)
        run.begin(2, number)
        run.loop(2, number, backward=900)
    run.loop(1, 0, trains=False, wait_for_worker=100)
    run.worker(0, [(100, 200), (200, 300), (1200, 1300)], 2200)
    (found,) = run.workers()
    assert found.busy_share == pytest.approx(0.3 / 2.1)


def test_workers_that_have_made_all_batches_of_a_pass_rest_until_its_end() -> None:
    """In each pass, the worker makes what there is in the first 200 ms, and the loop needs a second for it."""
    run = Run()
    for number in range(2):
        at = run.now
        run.begin(1, number)
        run.loop(1, number, backward=200, other=800)
        run.worker(0, [(at, at + 100), (at + 100, at + 200)], at + 210)
    result = run.result()
    assert result.workers[0].busy_share == pytest.approx(0.2) and result.workers[0].cores == pytest.approx(1 / 9)
    assert result.account is not None
    assert [one.recoverable_s for one in result.account.rows if one.code == "other"] == [pytest.approx(1.6)]


def test_without_the_time_of_loops_it_is_from_the_first_batch_to_the_last() -> None:
    run = Run()
    run.begin(1, 0)
    run.loop(1, 0, told=False, wait_for_worker=2000)
    run.worker(0, [(100, 300), (500, 600)], 2100)
    assert run.workers()[0].busy_share == pytest.approx(0.3 / 0.5)


def test_a_loop_in_another_thread_is_in_no_line_so_its_workers_count_as_without() -> None:
    run = Run()
    run.begin(1, 0)
    run.loop(1, 0, told=False, trains=False, wait_for_worker=500)
    run.begin(2, 0)
    run.loop(2, 0, backward=3000)
    run.worker(0, [(100, 300), (500, 600)], 3600)
    assert run.workers()[0].busy_share == pytest.approx(0.3 / 0.5)


def test_what_follows_the_recording_is_no_rest() -> None:
    """With --steps, recording stops, and the script and its workers go on."""
    run = Run(persistent=True)
    run.begin(1, 0)
    run.loop(1, 0, wait_for_worker=900, backward=100)
    run.lines.append(Moment("stop", run.now * MS))
    run.worker(0, [(100, 600), (600, 1100), (1100, 1600)], 9000)
    run.now = 9000
    (found,) = run.workers()
    assert found.batches == 2 and found.busy_share == pytest.approx(1.0)


def test_the_warm_up_is_no_part_of_it() -> None:
    run = Run()
    run.begin(1, 0)
    run.loop(1, 0, wait_for_worker=100, backward=900)
    run.lines.append(Moment("warm", run.now * MS))
    run.loop(1, 0, wait_for_worker=900, backward=100)
    run.worker(0, [(100, 200), (1100, 1600), (1600, 2000)], 2100)
    (found,) = run.result(warmup=1).workers
    assert found.busy_share == pytest.approx(0.9)


def test_a_script_that_was_killed_leaves_workers_that_count_until_their_last_record() -> None:
    """The last line of the script is older than that of the worker."""
    run = Run()
    run.begin(1, 0)
    run.loop(1, 0, wait_for_worker=400, backward=100)
    run.worker(0, [(100, 500), (700, 1100)], 1100)
    assert run.workers()[0].busy_share == pytest.approx(0.8)


def test_workers_without_data_are_idle() -> None:
    """One of four workers has all the data of a stream: the others only find that there is none."""
    run = Run(workers=4)
    run.begin(1, 0)
    run.loop(1, 0, wait_for_worker=900, backward=100)
    run.worker(0, [(100, 600), (600, 1100)], 1100)
    for number in range(1, 4):
        run.worker(number, [(100, 101)], 110, batches=0)
    result = run.result()
    assert [round(one.busy_share, 3) for one in result.workers] == [1.0, 0.001, 0.001, 0.001]
    assert result.account is not None and result.next_move is not None
    (cause,) = [one for one in result.account.causes if one.loader == 1]
    assert cause.code == "uneven-workers" and cause.values["others_busy"] == pytest.approx(0.001)
    assert result.next_move.action == "spread-evenly"


@pytest.mark.parametrize(("first_ms", "batches", "share"), [(10, 20, 1.0), (2000, 20, 0.91), (2000, 6, 0.27)])
def test_in_one_long_iteration_workers_rest_once_there_is_no_more_room(
    first_ms: int, batches: int, share: float
) -> None:
    """As in the first one, which compiles. With two batches ahead, a worker of 50 ms makes them in 100 ms."""
    run = Run()
    run.begin(1, 0)
    for number in range(20):
        run.loop(1, 0, wait_for_worker=40, backward=first_ms if number == 0 else 10)
    run.worker(0, [(100 + 50 * place, 150 + 50 * place) for place in range(batches)], run.now)
    (found,) = run.workers()
    assert found.busy_share == pytest.approx(share, abs=0.01)


def test_long_iterations_are_no_pauses_where_all_are_so() -> None:
    run = Run()
    run.begin(1, 0)
    for number in range(20):
        run.loop(1, 0, backward=2000 + number)
    run.worker(0, [(100 + 2000 * place, 150 + 2000 * place) for place in range(20)], run.now)
    (found,) = run.workers()
    assert found.busy_share == pytest.approx(0.025, abs=0.001)


@pytest.mark.parametrize(
    ("long", "count"), [((), 0), ((0,), 0), ((4,), 1), ((0, 7, 9), 2), (tuple(range(0, 20, 4)), 0)]
)
def test_a_few_iterations_that_take_much_of_the_loop_are_noted(long: Sequence[int], count: int) -> None:
    """More of them are work of the loop, such as a checkpoint."""
    run = Run()
    run.begin(1, 0)
    for number in range(20):
        run.loop(1, 0, first=number, wait_for_worker=40, forward=2000 if number in long else 10)
    run.worker(0, [(100, 150)], run.now)
    found = [one for one in run.result().notes if one.code == "long-iterations"]
    assert len(found) == (count > 0)
    for one in found:
        first = {"first_s": 2.0} if 0 in long else {}
        values = {"loader": 1, "count": count, "s": 2.0 * count, "usual_s": 0.01, "phase": "forward"}
        assert one.values == values | first
        said = sentence(one)
        besides = " (besides the first one, of 2.00 s)" if first else ""
        assert said.startswith(f"{count} iteration")
        assert f"over loader 1{besides} took {2 * count}.00 s besides waiting" in said
