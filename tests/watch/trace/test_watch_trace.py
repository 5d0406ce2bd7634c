"""The trace keeps the rules of the Trace Event Format, on records made by hand and on those of a run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from traces import check, flows_of, holding, names_of, nanoseconds, slices_of
from watching import plain, script, watched

from pipebench.watch.read.gather import Process
from pipebench.watch.record.device_lines import DeviceWait
from pipebench.watch.record.lines import (
    Arrival,
    BatchInFull,
    FetchSums,
    HandedOver,
    IterationInFull,
    Line,
    LoaderFound,
    LoopSums,
    NewStage,
    ProcessStarted,
    StageName,
)
from pipebench.watch.script import device_idle
from pipebench.watch.script.device_idle import IdleDevice
from pipebench.watch.script.training_device import TrainingDevice
from pipebench.watch.trace.device_timeline import chains, placed
from pipebench.watch.trace.perfetto import trace_events, write_trace
from pipebench.watch.trace.tracks import DEVICE, Slice, group, lay

MS = 1_000_000
WAIT, FORWARD, BACKWARD = 0, 2, 3


def _run(pin: bool = False, script: Sequence[Line] = (), device: Sequence[DeviceWait] = ()) -> list[Process]:
    """Two batches of one worker: the first kept in full at both ends, the second only followed."""
    names = [StageName("decode", "Image.load", True), StageName("collate", "together\x1b")]
    handed = [
        HandedOver(0, 0, 0, 5, 60, 70, 80, 21, 400, 1, 64, 0, 0),
        HandedOver(1, 0, 1, 61, 90, 91, 99, 21, 400, 1, 64, 0, 0),
    ]
    worker = Process([
        ProcessStarted(20, "worker", 0, 1, 0),
        *(NewStage(number, name) for number, name in enumerate(names, 1)),
        BatchInFull(1, 0, 0, 5, 60, [5, 1, 25, 2, 55, 0]),
        FetchSums(1, 0, 0, handed=handed),
    ])  # fmt: skip
    phases = [0, 100, WAIT, 100, 130, FORWARD, 130, 150, BACKWARD, 150, 150, FORWARD]
    first, second = ((82, 88, 11), (100, 120, 11)) if pin else ((0, 0, 0), (0, 0, 0))
    arrivals = [Arrival(0, 10, 0, 99, 100, *first, 150), Arrival(1, 10, 150, 155, 160, *second, 200)]
    return [
        Process([
            ProcessStarted(10, "script", 0),
            LoaderFound(1, "Photos", 1, 4, "fork", 2),
            IterationInFull(1, 0, 0, 0, 150, 10, phases),
            LoopSums(1, 0, arrivals=arrivals, device=list(device)),
            *script,
        ]),
        worker,
    ]  # fmt: skip


def test_every_rule_holds_and_times_are_whole(tmp_path: Path) -> None:
    write_trace(_run(), tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    check(events)
    assert {
        track: [(one["name"], nanoseconds(one["ts"]), nanoseconds(one["dur"])) for one in slices]
        for track, slices in slices_of(events).items()
    } == {
        (10, 10): [
            ("iteration", 0, 150), ("wait", 0, 100), ("forward", 100, 30), ("backward", 130, 20),
            ("iteration", 150, 50), ("wait", 150, 10), ("step", 160, 40),
        ],
        (20, 20): [("batch", 5, 55), ("Image.load", 5, 20), ("together\\x1b", 25, 30), ("batch", 61, 29)],
        (20, 21): [("pickle", 70, 10), ("pickle", 91, 8)],
    }  # fmt: skip
    assert names_of(events) == {(10, 10): "main", (20, 20): "main", (20, 21): "queue feeder"}
    assert names_of(events, "process_name") == {(10, 10): "script", (20, 20): "loader 1 worker 0"}


def test_arrows_lead_from_the_worker_to_the_step(tmp_path: Path) -> None:
    events = list(trace_events(_run(pin=True)))
    check(events, pinned=True)
    tracks = slices_of(events)
    ways = [[holding(one, tracks)[-1]["name"] for one in steps] for steps in flows_of(events).values()]
    assert ways == [["batch", "pickle", "pin", "forward"], ["batch", "pickle", "pin", "step"]]
    assert names_of(events)[10, 11] == "pin memory"


def test_a_batch_of_which_one_end_is_missing_has_no_arrow() -> None:
    script, worker = _run()
    events = list(trace_events([script, Process([one for one in worker.lines if not isinstance(one, FetchSums)])]))
    check(events)
    assert flows_of(events) == {}


def test_iterations_that_cross_get_a_track_of_their_own() -> None:
    """Two loaders in step: each iteration of one ends within the next one of the other."""
    crossing = []
    for turn in range(4):
        for loader, late in ((2, 0), (3, 10)):
            begin = 1000 + 100 * turn + late
            phases = [begin, begin + 5, WAIT, begin + 5, begin + 100, FORWARD]
            crossing.append(IterationInFull(loader, 0, turn, begin, begin + 100, 10, phases))
    events = list(trace_events(_run(script=crossing)))
    check(events)
    assert sorted(name for (pid, _), name in names_of(events).items() if pid == 10) == ["further iterations", "main"]
    assert len([one for slices in slices_of(events).values() for one in slices if one["name"] == "iteration"]) == 10


def test_what_lies_inside_stays_on_the_track() -> None:
    outer = group(1, 1, Slice("iteration", 0, 100), [Slice("wait", 0, 10), Slice("other", 40, 100)])
    inside, across = group(1, 1, Slice("iteration", 50, 80)), group(1, 1, Slice("iteration", 30, 60))
    further = lay([across, outer, inside])
    ((process, track),) = further  # what crosses a part of the iteration is laid beside it
    assert (process, outer.track, inside.track, across.track) == (1, 1, 1, track) and track != 1
    assert list(further.values()) == [1]


def test_slices_that_stick_out_are_left_out() -> None:
    found = group(1, 1, Slice("batch", 10, 20), [Slice("a", 5, 12), Slice("b", 12, 12), Slice("c", 12, 18)])
    assert [one.name for one in found.slices] == ["batch", "c"]
    found = group(1, 1, Slice("batch", 10, 20), [Slice("a", 10, 16), Slice("b", 15, 18), Slice("c", 16, 21)])
    assert [one.name for one in found.slices] == ["batch", "a"]


# --- the device


class _Event:
    """An event that completes at a known moment of the device's clock."""

    def __init__(self, at_ms: float, done: bool = True) -> None:
        self.at_ms, self.done = at_ms, done

    def query(self) -> bool:
        return self.done

    def elapsed_time(self, other: _Event) -> float:
        return other.at_ms - self.at_ms


def test_waits_are_placed_by_events_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    last = _Event(66, done=False)
    events = iter([_Event(10), _Event(12), _Event(30), _Event(30.5), _Event(60), last])
    monkeypatch.setattr(device_idle, "_recorded", lambda index: next(events))
    idle = IdleDevice(TrainingDevice())
    for turn in range(3):
        idle.begin()
        idle.end(100 + turn, turn)
    assert idle.take_placed() == [(0, 100, 2 * MS, -1), (1, 101, MS // 2, 18 * MS)]
    assert idle.take() == (2 * MS + MS // 2, 2, None)
    last.done = True
    idle._collect()
    assert idle.take_placed() == [(2, 102, 6 * MS, 29 * MS + MS // 2)] and idle.take_placed() == []


def test_a_chain_lies_as_early_as_no_event_comes_before_its_recording() -> None:
    """The second event completes long after it was recorded; the third at once, which is what places the chain."""
    chain = [DeviceWait(4, 1000, 50, -1), DeviceWait(5, 1100, 0, 400), DeviceWait(6, 1600, 20, 150)]
    assert placed(chain) == [(4, 980, 1030, 980), (5, 1430, 1430, 1030), (6, 1580, 1600, 1430)]
    for (_, host, _, _), (_, _, ended, _) in zip(chain, placed(chain), strict=True):
        assert ended >= host


def test_chains_break_where_something_is_unknown() -> None:
    waits = [DeviceWait(turn, 0, 0, 1) for turn in (0, 1, 3, 4)] + [DeviceWait(5, 0, 0, -1)]
    assert [[one[0] for one in chain] for chain in chains(waits)] == [[0, 1], [3, 4], [5]]
    assert max(len(chain) for chain in chains([DeviceWait(turn, 0, 0, 1) for turn in range(100)])) == 32
    assert list(chains([])) == []


def test_the_device_has_a_track() -> None:
    waits = [DeviceWait(turn, 100 + 100 * turn, 10, 90 if turn else -1) for turn in range(80)]
    events = list(trace_events(_run(device=waits)))
    check(events)
    found = slices_of(events)[10, DEVICE]
    assert names_of(events)[10, DEVICE] == "device"
    assert [one["name"] for one in found[:3]] == ["idle in the wait", "work", "idle in the wait"]
    assert [(nanoseconds(one["ts"]), nanoseconds(one["dur"])) for one in found[:3]] == [(90, 10), (100, 90), (190, 10)]


# --- a run


def test_a_run_is_the_same_and_its_trace_and_hand_off_are_true(tmp_path: Path) -> None:
    argv, trace = [script("crossing"), "3"], tmp_path / "trace.json"
    alone, with_us = plain(argv), watched(argv, tmp_path, {"export_trace": str(trace), "every": 7})
    assert (with_us.status, with_us.out) == (alone.status, alone.out) and alone.out
    hand_off: dict[str, Any] = with_us.watch["hand_off"]
    assert hand_off["batches"] == hand_off["followed"] == 60
    assert hand_off["tensors_per_batch"] == 3 and hand_off["shared_bytes_per_batch"] == 4064
    assert hand_off["arrays_per_batch"] == 1 and hand_off["array_bytes_per_batch"] == 200
    assert hand_off["most_ready"] == 4 and 0 <= hand_off["ready"] <= 4 and hand_off["pin_s"] is None
    assert 1 < len(hand_off["ready_over_time"]) <= 60
    events = json.loads(trace.read_text())["traceEvents"]
    check(events)
    assert len(flows_of(events)) == 60
    names = list(names_of(events).values())
    assert names.count("queue feeder") == 6 and names.count("main") == 7
    stages = {one["name"] for slices in slices_of(events).values() for one in slices}
    assert {"Things.__getitem__", "together", "pickle", "iteration", "wait", "step"} <= stages
    workers = with_us.watch["workers"]
    assert all(one["process_cpu_s"] > one["cpu_s"] > 0 for one in workers)
    pools = {(one["where"], one["name"]): one for one in with_us.watch["host"]["pools"]}
    assert pools["workers", "torch"]["threads"] == 1
    assert pools["script", "torch"]["set_with"] == "torch.set_num_threads(1)"
    assert with_us.watch["host"]["sharing_strategy"] == "file_descriptor"
    (loader,) = with_us.watch["loaders"]
    assert (
        loader["passes"] == 3 and loader["later_startup_s"] > loader["later_first_batch_s"] > 0 < loader["pass_end_s"]
    )


@pytest.mark.cuda
def test_pinned_batches_and_the_device_are_on_the_time_line(tmp_path: Path) -> None:
    argv, trace = [script("crossing"), "3", "--pin"], tmp_path / "trace.json"
    alone, with_us = plain(argv), watched(argv, tmp_path, {"export_trace": str(trace)})
    assert (with_us.status, with_us.out) == (alone.status, alone.out) and alone.out
    assert with_us.watch["hand_off"]["pin_s"] > 0
    events = json.loads(trace.read_text())["traceEvents"]
    check(events)
    assert {"pin memory", "device", "queue feeder"} <= set(names_of(events).values())
    assert len(flows_of(events)) == 60 and {len(steps) for steps in flows_of(events).values()} == {4}
