"""The series of a program while it runs: from records that are written by hand, some at a time."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipebench.results.names import hidden_in_words
from pipebench.watch.log.live import Live
from pipebench.watch.log.sinks import Point
from pipebench.watch.record.device_lines import DeviceIdleTime
from pipebench.watch.record.lines import (
    Arrival,
    FetchSums,
    HandedOver,
    Line,
    LoaderFound,
    LoadersTogether,
    LoopSums,
    NewStage,
    PassBegun,
    ProcessStarted,
    StageName,
)
from pipebench.watch.record.program_lines import RankFound
from pipebench.watch.record.record_file import PHASES, WAIT, encoded

MS, MB = 1_000_000, 1_000_000
EACH_MS = 10


class Program:
    """A program whose loop waits 4 of 10 ms, and its worker, which makes a batch of 8 samples in 6 ms."""

    def __init__(self, folder: Path, **how: Any) -> None:
        self.folder, self.sizes, self.now = folder, {11: 100 * MB}, 0
        self.live = Live(folder, how.pop("shown", str), how.pop("loader", None), self._memory)
        self.write("10-0", ProcessStarted(10, "script", 0), LoaderFound(1, "Photos", 2, 8, "fork", 2))
        self.write("11-0", ProcessStarted(11, "worker", 0, 1, 0, "fork"), *stages("decode", "flip"))

    def _memory(self, pids: Collection[int]) -> dict[int, int]:
        return {pid: self.sizes[pid] for pid in pids if pid in self.sizes}

    def write(self, name: str, *lines: Line, ends: bytes = b"") -> None:
        with (self.folder / f"{name}.spans").open("ab") as file:
            file.write(encoded(*lines) + ends)

    def turn(self, loader: int = 1, wait_ms: float = 4, **how: Any) -> None:
        self.write("10-0", turn(loader, self.now, wait_ms, **how))
        self.now += EACH_MS * MS

    def fetch(self, name: str = "11-0", **how: Any) -> None:
        self.write(name, fetch(self.now, **how))


def latest(program: Program) -> Point:
    point = program.live.latest()
    assert point is not None
    return point


def stages(*names: str) -> list[NewStage]:
    return [NewStage(number, StageName("transform", name)) for number, name in enumerate(names, 1)]


def turn(loader: int, begin: int, wait_ms: float, trained: int = 1, **how: Any) -> LoopSums:
    phases = [0] * len(PHASES)
    phases[WAIT], phases[-1] = int(wait_ms * MS), int((EACH_MS - wait_ms) * MS)
    return LoopSums(loader, 0, 1, begin, 1, trained, phases, **how)


def fetch(begin: int, loader: int = 1, **how: Any) -> FetchSums:
    spent = how.pop("stages_ns", {1: 4 * MS, 2: 2 * MS})
    return FetchSums(loader, begin, begin + 6 * MS, 1, 8, busy_ns=6 * MS, stages_ns=spent, **how)


def test_a_point_for_so_many_iterations_has_the_figures_that_were_planted(tmp_path: Path) -> None:
    program = Program(tmp_path)
    for _ in range(5):
        program.turn(idle=DeviceIdleTime(3 * MS, 1))
        program.fetch()
    first, second = program.live.points(2)
    assert (first.iteration, second.iteration, list(program.live.points(2))) == (2, 4, [])
    assert second.at_s - first.at_s == pytest.approx(2 * EACH_MS / 1000, abs=1e-5)
    assert first.values == pytest.approx(
        {
            "wait_share": 0.4, "wait_ms": 4, "iteration_ms": 10, "device_idle_ms": 3, "iterations_per_s": 100,
            "samples_per_s": 800, "loading_ms": 6, "stage_ms/transform.decode": 4, "stage_ms/transform.flip": 2,
        }
    )  # fmt: skip
    program.turn(wait_ms=0)
    (third,) = program.live.points(2)  # one batch was made
    assert (third.iteration, third.values["wait_ms"], third.values["loading_ms"]) == (6, 2, 6)
    for _ in range(2):
        program.turn()
    (fourth,) = program.live.points(2)
    assert fourth.values["samples_per_s"] == 800 and "loading_ms" not in fourth.values
    assert set(third.named()) >= {"pipebench/wait_ms"}


def test_a_point_has_its_time_of_day_also_after_the_machine_was_suspended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock of the records stands still meanwhile."""
    clock = SimpleNamespace(time=lambda: 1000.0, perf_counter=lambda: 1.0)
    monkeypatch.setattr("pipebench.watch.log.live.time", clock)
    program = Program(tmp_path)
    program.turn()
    before = latest(program)
    clock.time = lambda: 8200.0
    program.turn()
    assert (before.at_s, latest(program).at_s) == pytest.approx((999 + 0.01, 8199 + 0.02))


def test_the_start_of_a_pass_is_counted_and_in_no_figure(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.turn(wait_ms=9, first_wait_ns=9 * MS)
    assert program.live.latest() is None
    program.turn()
    point = latest(program)
    assert (point.iteration, point.values["wait_ms"]) == (2, 4)


def test_only_the_loop_that_trains_is_in_the_series(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.turn(2, 9, trained=0)
    assert latest(program).values["wait_ms"] == 9  # nothing trains yet: it is the loop
    for _ in range(3):
        program.turn(2, 9, trained=0)
        program.turn(3, 9, trained=0, beside=True)
        program.turn()
        program.fetch(loader=2, stages_ns={1: 6 * MS})
    (point,) = program.live.points(3)
    assert point.iteration == 3 and point.values == pytest.approx(
        {"wait_share": 0.4, "wait_ms": 4, "iteration_ms": 10, "iterations_per_s": 100}
    )


def test_iterations_do_not_go_back_where_an_evaluation_comes_before_the_training(tmp_path: Path) -> None:
    program = Program(tmp_path)
    for _ in range(5):
        program.turn(2, 9, trained=0)
    assert latest(program).iteration == 5
    for expected in (7, 9):
        for _ in range(2):
            program.turn()
        assert latest(program).iteration == expected


def test_a_loop_that_another_thread_iterates_says_nothing(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.turn(trained=0, beside=True)
    assert program.live.latest() is None


def test_loaders_in_step_make_the_same_iterations(tmp_path: Path) -> None:
    """As in `zip`: only the loader that is asked last is seen to train."""
    program = Program(tmp_path)
    program.write("10-0", LoadersTogether(1, 2))
    program.write("10-0", turn(1, 0, 10, trained=0), turn(2, 10 * MS, 0))
    program.fetch()
    program.fetch(loader=2)
    point = latest(program)
    assert (point.iteration, point.values["wait_ms"], point.values["iteration_ms"]) == (1, 10, 20)
    assert point.values["samples_per_s"] == pytest.approx(16 / 0.02)


def test_the_samples_of_loaders_in_step_are_known_once_both_have_made_some(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.write("10-0", LoadersTogether(1, 2))
    program.write("10-0", turn(1, 0, 4, trained=0), turn(2, 0, 4))
    program.fetch()
    assert "samples_per_s" not in latest(program).values


def test_a_loader_that_begins_anew_in_step_counts_in_every_iteration(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.write("10-0", LoadersTogether(1, 2))
    for number in range(6):  # the second one has passes of two batches
        begins = {"first_wait_ns": 4 * MS} if number % 2 == 0 else {}
        program.turn(1, trained=0)
        program.turn(2, **begins)
    point = latest(program)
    shown = point.values["wait_ms"], point.values["iteration_ms"]
    assert point.iteration == 6 and shown == pytest.approx((8, 20))


def test_a_loader_that_is_asked_now_and_then_is_not_in_the_series(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.write("10-0", LoadersTogether(1, 2))
    for _ in range(5):
        program.turn()
    program.turn(2, 9, trained=0)
    point = latest(program)
    assert (point.iteration, point.values["wait_ms"]) == (5, 4)


def test_of_several_loaders_one_can_be_chosen(tmp_path: Path) -> None:
    program = Program(tmp_path, loader=2)
    program.turn(1, 9)
    program.turn(2, 4)
    point = latest(program)
    assert (point.iteration, point.values["wait_ms"]) == (1, 4)


def test_of_loaders_in_step_the_stalls_are_those_of_the_one_that_is_waited_for(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.write("10-0", LoadersTogether(1, 2))
    for task in range(32):
        wait = 0 if task % 4 else 8
        program.turn(1, wait, trained=0, arrivals=[Arrival(task, 1, 0, wait * MS, wait * MS, 0, 0, 0)])
        program.turn(2, 0, arrivals=[Arrival(task, 1, 0, 0, 0, 0, 0, 0)])
    point = latest(program)
    assert (point.values["stall_period_iterations"], point.values["stall_share"]) == (4, 1)


def test_a_line_that_is_half_written_waits_for_its_end(tmp_path: Path) -> None:
    program = Program(tmp_path)
    line = encoded(turn(1, 0, 4))
    program.write("10-0", ends=line[:20])
    assert program.live.latest() is None
    program.write("10-0", ends=line[20:] + b"garbage\n[1]\n" + line)
    point = latest(program)
    assert point.iteration == 2


def test_the_fill_of_the_queue_is_that_before_the_last_point(tmp_path: Path) -> None:
    program = Program(tmp_path)
    for task in range(12):  # of four batches that may be in flight, two are always ready
        asked = (10 + task) * EACH_MS * MS
        program.turn(arrivals=[Arrival(task, 1, asked, asked, asked + MS, 0, 0, 0)])
        sent = asked - 2 * EACH_MS * MS + 1
        program.fetch(handed=[HandedOver(task, 0, task, sent, sent, sent, sent, 1, 1, 1, 1, 0, 0)])
    assert "queue_fill" not in latest(program).values
    program.turn()
    point = latest(program)
    assert point.values["queue_fill"] == pytest.approx((2 * 11 + 1) / 12 / 4)


@pytest.mark.parametrize(("each", "period", "share"), [(4, 4.0, 1.0), (1, 0.0, 0.0)])
def test_a_stall_has_its_period(each: int, period: float, share: float, tmp_path: Path) -> None:
    program = Program(tmp_path)
    for task in range(32):
        wait = 0 if task % each else 8 * MS
        program.turn(arrivals=[Arrival(task, 1, 0, wait, wait, 0, 0, 0)])
    point = latest(program)
    assert [point.values[f"stall_{name}"] for name in ("period_iterations", "share")] == [period, share]


@pytest.mark.parametrize(("workers", "period"), [(4, 0.0), (8, 4.0), (0, 4.0)])
def test_workers_that_finish_together_are_no_stall(workers: int, period: float, tmp_path: Path) -> None:
    """Four workers that never rest give four batches at once: the loop waits for the first of them only."""
    program = Program(tmp_path)
    program.write("10-0", LoaderFound(1, "Photos", workers, 8, "fork", 2))
    for task in range(32):
        wait = 0 if task % 4 else 8 * MS
        program.turn(arrivals=[Arrival(task, 1, 0, wait, wait, 0, 0, 0)])
    point = latest(program)
    shown = point.values["stall_period_iterations"], point.values["stall_share"]
    assert shown == (period, 1.0 if period else 0.0)


def test_memory_of_workers_and_its_growth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program(tmp_path)
    monkeypatch.setattr("pipebench.watch.log.live.time.perf_counter", lambda: program.now * 1e-9)
    program.write("10-0", PassBegun(1, 0, 0), PassBegun(1, 1, 500 * EACH_MS * MS))  # a pass takes 5 s
    program.turn()
    assert "worker_memory_mb" not in latest(program).values
    for _ in range(40):
        program.now += 990 * MS
        program.sizes[11] += 2 * MB
        program.turn()
        point = latest(program)
        assert point.values["worker_memory_mb"] == program.sizes[11] / MB
    for unit, mb in (("pass", 10), ("hour", 7200)):
        for end in ("", "_low", "_high"):
            assert point.values[f"worker_memory_growth_mb_per_{unit}{end}"] == pytest.approx(mb, rel=0.01)
    program.write("12-0", ProcessStarted(12, "worker", 0, 1, 1, "fork"))
    program.sizes[12] = MB
    assert program.live.latest() is None
    program.turn()
    point = latest(program)
    assert point.values["worker_memory_mb"] == program.sizes[11] / MB + 1
    assert not [name for name in point.values if "growth" in name]  # another worker: it begins anew


def test_what_is_known_of_workers_that_are_gone_goes(tmp_path: Path) -> None:
    program = Program(tmp_path)
    for number in range(20, 40):
        program.write(f"{number}-0", ProcessStarted(number, "worker", 0, 1, 0, "fork"), *stages("late"))
        program.turn()
        program.live.latest()
        program.write(f"{number}-0", fetch(program.now, stages_ns={1: 6 * MS}))  # read when it is gone
        program.turn()
        point = latest(program)
        assert point.values["stage_ms/transform.late"] == 6
    assert len(program.live._workers) <= 3 and len(program.live._names) <= 3


def test_names_that_hold_paths_become_tokens_that_last(tmp_path: Path) -> None:
    program = Program(tmp_path, shown=hidden_in_words())
    program.write("11-0", NewStage(3, StageName("label", "load /home/me/secret/cat.jpg")))
    found = set()
    for _ in range(2):
        program.turn()
        program.fetch(stages_ns={3: 6 * MS})
        found |= set(latest(program).values)
    (name,) = [one for one in found if one.startswith("stage_ms")]
    assert name.startswith("stage_ms/label.load") and "me" not in name.partition("label")[2] and "cat" not in name


def test_a_function_that_is_timed_no_longer_is_in_the_row_around_it(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.write("11-0", *[NewStage(one, StageName("function", f"step{one}")) for one in (3, 4)])
    program.turn()
    program.fetch(stages_ns={3: 6 * MS, 4: 6 * MS}, left={4: 3})
    assert latest(program).values["stage_ms/function.step3"] == 12


def test_there_are_only_so_many_series(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.write("11-0", *[NewStage(one, StageName("label", f"sample {one}")) for one in range(3, 200)])
    found: set[str] = set()
    for one in range(3, 200):
        program.turn()
        program.fetch(stages_ns={one: 6 * MS})
        found |= set(latest(program).values)
    assert len([one for one in found if one.startswith("stage_ms")]) == 32


def test_a_rank_is_known(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.write("10-0", RankFound(0, 1))
    program.live.latest()
    assert program.live.rank is None
    program.write("10-0", RankFound(3, 4))
    program.live.latest()
    assert program.live.rank == 3
