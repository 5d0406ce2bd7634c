"""The short series of a run, and a few of its steps: from records made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from pipebench.watch.launch.footprint import Footprint, Held
from pipebench.watch.launch.over_time import OverTime as Looks
from pipebench.watch.launch.over_time import Seen
from pipebench.watch.launch.stacks import Looks as Stacks
from pipebench.watch.read.gather import Process, Run, ShownTime
from pipebench.watch.read.programs import Records, programs_of
from pipebench.watch.read.series import _memory, by_worker, over_time, points
from pipebench.watch.record.device_lines import DeviceWait
from pipebench.watch.record.lines import (
    Arrival,
    FetchSums,
    HandedOver,
    IterationInFull,
    Line,
    LoaderFound,
    LoopSums,
    ProcessStarted,
)
from pipebench.watch.record.options import WatchOptions
from pipebench.watch.record.record_file import bucket
from pipebench.watch.trace.excerpt import timeline

MS, S, MB = 1_000_000, 1_000_000_000, 1_000_000
STEPS = 40


def _run(workers: int = 2, device: tuple[DeviceWait, ...] = (), in_full: int | None = None) -> list[Process]:
    """Steps of 10 ms, 4 of them waiting. Each batch is made in 15 ms, pickled in 1 ms, and 5 ms old when asked for."""
    made: list[list[Line]] = [[ProcessStarted(20 + one, "worker", 0, 1, one, "fork")] for one in range(workers)]
    arrivals = []
    for task in range(STEPS):
        asked = (100 + 10 * task) * MS
        done = asked - 5 * MS
        handed = [HandedOver(task, 0, task // workers, done - 15 * MS, done, done, done + MS, 99, 400, 1, 64, 0, 0)]
        made[task % workers].append(FetchSums(1, done - 15 * MS, done, lengths={bucket(5 * MS): 4}, handed=handed))
        arrivals.append(Arrival(task, 1, asked, asked, asked + 4 * MS, 0, 0, 0, asked + 10 * MS))
    turns = LoopSums(1, 0, begin=100 * MS, turns=STEPS, phases_ns=[400 * MS], arrivals=arrivals)
    turns.waits = {bucket(4 * MS): STEPS}
    lines: list[Line] = [ProcessStarted(1, "script", 50 * MS), LoaderFound(1, "Photos", workers, 4, "fork", 2), turns]
    turns.device = list(device)
    if in_full is not None:
        begin = (100 + 10 * in_full) * MS
        log = [begin, begin + 4 * MS, 0, begin + 4 * MS, begin + 7 * MS, 2, begin + 7 * MS, begin + 9 * MS, 3]
        lines.append(IterationInFull(1, 0, in_full, begin, begin + 10 * MS, 1, log))
    return [Process(lines), *map(Process, made)]


def _series(processes: list[Process], footprint: Footprint | None = None) -> Any:
    return over_time(Run(processes, ShownTime(), (1,)), (1,), 2, footprint or Footprint())


def test_waits_are_neighbours_without_the_first_ones() -> None:
    assert _series(_run()).waits_s == pytest.approx([0.004] * (STEPS - 2))


def test_percentiles_over_time_are_bounded_and_keep_the_longest() -> None:
    lines = [(one * MS, {300: 9, bucket(9 * MS): 1} if one == 777 else {300: 10}) for one in range(5000)]
    found = points(lines, -S)
    assert len(found) == 60 and sum(one.number for one in found) == 50_000
    assert found[0].at_s == pytest.approx(1.0417, abs=1e-3)
    assert len({one.p50_s for one in found}) == 1
    assert [one.most_s > one.p50_s for one in found].count(True) == 1
    assert points([(0, {})], 0) == ()


def test_memory_is_of_the_workers_with_most_of_it() -> None:
    held = {
        20 + one: Held(over_time=Looks([Seen(s, (10 + one) * MB + int(s)) for s in (1.0, 2.0)])) for one in range(12)
    }
    found = _series(_run(12), Footprint(processes=held)).memory
    assert [one.worker for one in found] == list(range(4, 12))
    assert found[0].points[0] == (pytest.approx(0.95), 14 * MB + 1)


def test_memory_of_a_worker_is_that_of_all_passes() -> None:
    """A loader without persistent workers has another process for the same number in each pass."""
    started = [ProcessStarted(pid, "worker", 0, 1, 0) for pid in (20, 21)]
    looks = {
        20: Looks([Seen(1.0 + one / 100, 10 * MB) for one in range(100)]),
        21: Looks([Seen(3.0 + one / 100, (11 + (one == 300)) * MB) for one in range(400)]),
    }
    footprint = Footprint(processes={pid: Held(over_time=one) for pid, one in looks.items()})
    [found] = _memory([Process([one]) for one in started], (1,), footprint, 0)
    seconds = [one.at_s for one in found.points]
    assert seconds == sorted(seconds) and seconds[0] <= 2.0 and seconds[-1] > 6.9
    assert len(found.points) <= 120 and max(one.own_bytes for one in found.points) == 12 * MB


def test_stages_by_worker_join_the_processes_of_several_passes() -> None:
    started = [(20, 0), (21, 1), (30, 0)]
    processes = [Process([ProcessStarted(pid, "worker", 0, 1, number)]) for pid, number in started]
    each = by_worker(processes, 1, {20: 10, 21: 10, 30: 30})
    assert each({20: 1.0, 21: 3.0, 30: 1.0}) == pytest.approx((0.05, 0.3))
    assert each({0: 2.0}) == ()  # the feeder threads: no worker's own time
    many = [Process([ProcessStarted(one, "worker", 0, 1, one)]) for one in range(65)]
    assert by_worker(many, 1, {1: 1})({1: 1.0}) == ()


def test_a_timeline_is_a_stretch_of_settled_neighbours() -> None:
    found = timeline(_run(), (1,))
    assert found is not None and found.tracks == ("worker 0", "worker 1", "loop") and found.steps == 8
    loop = [one for one in found.spans if found.tracks[one.track] == "loop"]
    assert [one.name for one in loop] == ["wait", "step"] * 8
    assert loop[0].batch >= 4  # after the batches that were on their way at the start
    assert [one.end_s - one.begin_s for one in loop[:2]] == pytest.approx([0.004, 0.006])
    assert max(one.end_s for one in found.spans) == pytest.approx(0.08)
    batches = {one.batch: one for one in found.spans if one.name == "batch"}
    first = loop[2].batch
    assert batches[first].end_s == pytest.approx(loop[2].begin_s - 0.005)
    assert all(found.tracks[one.track] == f"worker {one.batch % 2}" for one in batches.values())


def test_a_stretch_with_known_phases_is_preferred() -> None:
    found = timeline(_run(in_full=25), (1,))
    assert found is not None
    assert [(one.name, one.batch) for one in found.spans if one.name in ("forward", "backward")] == [
        ("forward", 25), ("backward", 25),
    ]  # fmt: skip


def test_the_device_has_a_track_if_it_was_seen() -> None:
    waits = tuple(DeviceWait(turn, (104 + 10 * turn) * MS, 2 * MS, 8 * MS) for turn in range(STEPS))
    found = timeline(_run(device=waits), (1,))
    assert found is not None and found.tracks[-1] == "device"
    idle = [one for one in found.spans if one.name == "idle"]
    assert idle[3].end_s - idle[3].begin_s == pytest.approx(0.002)


def test_many_workers_and_no_batches() -> None:
    found = timeline(_run(30), (1,))
    assert found is not None and len(found.spans) <= 300 and found.workers == 30
    assert sum(one.startswith("worker") for one in found.tracks) <= 12
    assert timeline(_run()[:1], (1,)) is None and timeline([], ()) is None and timeline(_run(), (0,)) is None


def test_of_several_programs_only_the_shown_one_keeps_its_series() -> None:
    records = [Records(_run(), Footprint(), Stacks()) for _ in range(2)]
    main, command = programs_of(("run.sh",), records, WatchOptions(), 0, 4.0)
    others = [one.watched for one in command.programs if one.watched is not None]
    assert main.over_time is not None and main.over_time.waits_s
    assert len(others) == 1 and others[0].over_time is None
