"""Batches followed from their worker to the step: what is noted on the way, and what is made of it."""

from __future__ import annotations

import multiprocessing.queues
import queue
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pipebench.render import watch_details
from pipebench.results.hand_off import QueuePoint
from pipebench.watch.read.gather import Process, Run, ShownTime
from pipebench.watch.read.hand_off import hand_off, in_order, matched, over_time
from pipebench.watch.record.lines import (
    Arrival,
    FetchSums,
    HandedOver,
    Line,
    LoaderFound,
    LoopSums,
    Pickled,
    ProcessStarted,
)
from pipebench.watch.record.patches import Patches
from pipebench.watch.record.recording import Recording, Settings
from pipebench.watch.record.sampling import BLOCK, followed
from pipebench.watch.script.arrivals import Arrivals, watch_pinning, watch_queues
from pipebench.watch.worker import pickling
from pipebench.watch.worker.pickling import Crossing, Meter

MS = 1_000_000


def test_what_is_followed_grows_with_the_logarithm_of_the_run() -> None:
    assert all(followed(task) for task in range(1024))
    counts = [sum(followed(task) for task in range(2**power)) for power in range(10, 18)]
    assert counts == [1024 + 512 * place for place in range(8)]
    passes = [number for number in range(200) if followed(0, number)]
    assert passes[:12] == [*range(8), 8, 10, 12, 14] and len(passes) == 8 + 4 * 4 + 3


def test_neighbours_are_followed_together() -> None:
    for block in range(0, 300_000, BLOCK):
        assert len({followed(task) for task in range(block, block + BLOCK)}) == 1


# --- in the worker


@pytest.fixture
def meter(monkeypatch: pytest.MonkeyPatch) -> Iterator[Meter]:
    fresh, patches = Meter(), Patches()
    monkeypatch.setattr(pickling, "meter", fresh)
    pickling.watch_queue(patches)
    yield fresh
    patches.undo()


def _dumped(message: Any) -> bytes:
    return bytes(multiprocessing.queues._ForkingPickler.dumps(message))  # type: ignore[attr-defined]


def test_what_crosses_is_counted_and_is_the_same_bytes(meter: Meter) -> None:
    shared = np.arange(10.0)
    batch = {"images": np.zeros((4, 3, 2)), "twice": [shared, shared], "names": ["a", "b"], "label": np.float32(1)}
    plain = bytes(multiprocessing.reduction.ForkingPickler.dumps((0, batch)))
    meter.made(batch, 0, 0, 5, 9)
    assert _dumped((0, batch)) == plain
    (found,) = meter.take_handed()
    assert found[:5] == (0, 0, 0, 5, 9) and 9 < found.pickling < found.sent
    assert found[7:] == (threading.get_native_id(), len(plain), 0, 0, 2, 24 * 8 + 80, 0, 24 * 8 + 80, 0, 0)
    taken = meter.take()
    assert (taken.batches, taken.pipe_bytes) == (1, len(plain)) and taken.cpu_ns > 0
    assert taken.wall_ns >= found.sent - found.pickling


def test_memory_that_tensors_share_is_counted_once(meter: Meter) -> None:
    whole = torch.arange(1000, dtype=torch.float32)
    batch = [whole[:10], whole[10:20], torch.zeros(8, dtype=torch.int64), torch.zeros(0)]
    meter.made(batch, 2, 7, 5, 9)
    _dumped((3, batch))
    (found,) = meter.take_handed()
    assert found[:3] == (3, 2, 7) and found[9:] == (4, 4000 + 64, 0, 0, 4000 - 80, 0, 2, 0)
    assert [one.tolist() for one in batch[:2]] == [[*map(float, range(10))], [*map(float, range(10, 20))]]


def test_only_what_was_made_here_is_followed(meter: Meter) -> None:
    batches: list[Any] = [[1], [2], [3]]
    for nth, batch in enumerate(batches):
        meter.made(batch, 0, nth, 0, 1)
    _dumped("a message of the script's own")
    _dumped((5, [2]))
    assert meter.take_handed() == []
    _dumped((7, batches[1]))
    assert [one[:3] for one in meter.take_handed()] == [(7, 0, 1)]
    _dumped((5000, batches[2]))
    assert meter.take_handed() == [] and meter.take().batches == 2  # a queue of the script's own is no hand-off


def test_storages_without_a_count_harm_nothing() -> None:
    crossing = Crossing()
    crossing.storage(torch.zeros(3).untyped_storage())
    assert crossing.counted() == (0, 12, 0, 0, 0, 0, 1)


# --- in the script's process


class _Iterator:
    """An iterator with workers, as far as its queue."""

    def __init__(self, messages: list[Any], ordered: bool = True) -> None:
        self._data_queue: Any = queue.Queue()
        self._rcvd_idx, self._in_order = 0, ordered
        for message in messages:
            self._data_queue.put(message)

    def _get_data(self) -> Any:
        return self._data_queue.get()


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    return Recording(Settings(str(tmp_path)), "script")


def _follow(recording: Recording, messages: list[Any], ordered: bool) -> tuple[Arrivals, _Iterator, Any]:
    arrivals, kind = Arrivals(), type("Kind", (_Iterator,), {})
    watch_queues(recording, arrivals, kind)
    return arrivals, kind(messages, ordered), kind


def test_batches_are_told_apart_by_their_task(recording: Recording) -> None:
    arrivals, iterator, kind = _follow(recording, [(1, "b"), (0, "a"), ("resume", None)], True)
    assert [iterator._get_data() for _ in range(3)] == [(1, "b"), (0, "a"), ("resume", None)]
    iterator._rcvd_idx = 1
    found = arrivals.taken(iterator, 0, 3, 10**18)
    assert found is not None
    assert found == Arrival(0, threading.get_native_id(), 3, found.came, 10**18, 0, 0, 0)
    assert arrivals.taken(iterator, 0, 3, 4) is None
    iterator._rcvd_idx = 2
    later = arrivals.taken(iterator, 0, 3, 10**18)
    assert later is not None and later.task == 1 and later.came < found.came
    recording.patches.undo()
    assert kind._get_data is _Iterator._get_data


def test_a_loader_that_keeps_no_order_is_followed_by_what_came_last(recording: Recording) -> None:
    arrivals, iterator, _ = _follow(recording, [(4, "e")], False)
    iterator._get_data()
    found = arrivals.taken(iterator, 0, 3, 4)
    assert found is not None and found.task == 4


def test_a_fault_ends_the_following_and_nothing_else(recording: Recording) -> None:
    arrivals, iterator, _ = _follow(recording, [(0, "a")], True)
    iterator._data_queue = types.SimpleNamespace(__slots__=(), get=lambda: (0, "a"))
    arrivals.of = lambda queue: 1 / 0  # type: ignore[assignment,method-assign,return-value]
    assert iterator._get_data() == (0, "a") and arrivals.lost
    assert arrivals.taken(iterator, 0, 1, 2) is None


def _fake_pinning() -> Any:
    """torch's module as far as its thread: get, pin, put on, until told to end."""
    module: Any = types.ModuleType("pin_memory")

    def _pin_memory_loop(in_queue: Any, out_queue: Any, device_id: int, done_event: Any, device: Any) -> None:
        while not done_event.is_set():
            try:
                number, data = in_queue.get(timeout=0.01)
            except queue.Empty:
                continue
            out_queue.put((number, data.upper()), timeout=5)

    module._pin_memory_loop = _pin_memory_loop
    return module


def test_the_pin_memory_thread_is_seen(recording: Recording) -> None:
    arrivals, iterator, _ = _follow(recording, [], True)
    module, workers, done = _fake_pinning(), queue.Queue[Any](), threading.Event()
    plain = module._pin_memory_loop
    watch_pinning(recording, arrivals, module)
    arguments = (workers, iterator._data_queue, 0, done, None)
    thread = threading.Thread(target=module._pin_memory_loop, args=arguments)
    assert "_pin_memory_loop" in thread.name
    thread.start()
    workers.put((0, "a"))
    assert iterator._get_data() == (0, "A")
    native = thread.native_id
    done.set()
    thread.join()
    iterator._rcvd_idx = 1
    found = arrivals.taken(iterator, 0, 1, 2)
    assert found is not None and found.pin_thread == native
    assert 0 < found.begun <= found.received <= found.pinned <= found.came
    recording.patches.undo()
    assert module._pin_memory_loop is plain


# --- what follows from both ends


def _processes(
    ends: Sequence[tuple[int, int]],
    gots: Sequence[tuple[int, int, int]],
    pin: bool = False,
    seen: Callable[[int], bool] = lambda task: True,
) -> Run:
    """Tasks of two workers in turn. `ends`: done and sent of each; `gots`: asked, came and taken of each, in ms.

    `seen` says which of them the loop followed.
    """
    workers: list[list[Line]] = [[ProcessStarted(2 + number, "worker", 0, 1)] for number in (0, 1)]
    for task, (done, sent) in enumerate(ends):
        times = (done - 1) * MS, done * MS, done * MS, sent * MS
        made = HandedOver(task, 0, 1 + task // 2, *times, 99, 400, 2, 1000, 1, 80)
        handed = [made] if followed(task) else []
        workers[task % 2].append(FetchSums(1, 0, 0, pickled=Pickled(MS, MS, 1, 400), handed=handed))
    arrivals = []
    for task, (asked, came, taken) in enumerate(gots):
        pinned = ((ends[task][1] + 1) * MS, (ends[task][1] + 4) * MS, 55) if pin else (0, 0, 0)
        if followed(task) and seen(task):
            arrivals.append(Arrival(task, 1, asked * MS, came * MS, taken * MS, *pinned, (taken + 5) * MS))
    turns = LoopSums(1, 0, turns=len(gots), arrivals=arrivals)
    script = Process([ProcessStarted(1, "script", 0), LoaderFound(1, "Photos", 2, 4, "fork", 2), turns])
    return Run([script, *map(Process, workers)], ShownTime(), (1,))


def test_the_hand_off_from_both_ends() -> None:
    """Waited for; ready when asked; overtaken by the next one, which is then ready."""
    ends = [(15, 16), (12, 13), (60, 62), (41, 42)]
    gots = [(10, 18, 18), (30, 30, 30), (40, 64, 64), (70, 45, 70)]
    found = hand_off(_processes(ends, gots), (1,))
    assert found is not None and found.followed == 4 and found.batches == 4
    assert found.latency_s == pytest.approx(0.0035)  # 18 - 15 and 64 - 60
    assert found.ready == pytest.approx((0 + 1 + 0 + 1) / 4) and found.most_ready == 4
    assert found.out_of_order == pytest.approx(1 / 4)
    assert found.out_of_order_s_per_batch == pytest.approx((64 - 45) / 4 / 1000)
    assert (found.tensors_per_batch, found.shared_bytes_per_batch) == (2, 1000)
    assert (found.arrays_per_batch, found.array_bytes_per_batch, found.pipe_bytes_per_batch) == (1, 80, 400)
    assert found.pin_s is None


def test_a_pinned_batch_is_ready_once_it_is_pinned() -> None:
    ends = [(10, 12), (10, 12), (10, 12)]
    found = hand_off(_processes(ends, [(5, 17, 17), (14, 18, 18), (30, 31, 31)], pin=True), (1,))
    assert found is not None and found.pin_s == pytest.approx(0.003)
    assert found.latency_s == pytest.approx(0.003)  # received at 13, by the pin-memory thread, not taken at 17
    assert found.ready == pytest.approx((0 + 0 + 1) / 3)


def test_batches_beyond_what_is_followed_leave_no_wrong_count() -> None:
    """At the end of a block the next ones are unknown: they are not counted as not ready."""
    tasks = range(1024 + 2 * BLOCK)
    ends = [(1, 2) for _ in tasks]
    gots = [(10 + task, 10 + task, 10 + task) for task in tasks]
    run = _processes(ends, gots, seen=lambda task: task < 1024 + BLOCK)
    found = hand_off(run, (1,))
    assert found is not None and found.batches > found.followed and found.ready == 4


def test_no_order_no_queue() -> None:
    run = _processes([(10, 11), (5, 6)], [(12, 13, 14), (3, 7, 8)])
    batches, _ = matched(run.processes, 1)
    found = hand_off(run, (1,))
    assert not in_order(batches) and found is not None and found.ready is None and found.ready_over_time == ()


def test_without_workers_there_is_no_hand_off() -> None:
    assert hand_off(Run([Process([])], ShownTime(), (1,)), (1,)) is None


def test_the_queue_over_the_run_has_a_bound() -> None:
    assert over_time([]) == ()
    points = [(at * MS, at // 500) for at in range(1000)]
    found = over_time(points, 10)
    assert [one.ready for one in found] == [0] * 5 + [1] * 5
    assert [one.batches for one in found] == [100] * 10
    assert found[0].at_s == pytest.approx(0.05, rel=0.01)
    assert len(over_time([(0, 1), (10**12, 2)], 10)) == 2


def test_the_hand_off_as_text() -> None:
    ends = [(15, 16), (12, 13), (60, 62), (41, 42)]
    found = hand_off(_processes(ends, [(10, 18, 18), (30, 30, 30), (40, 64, 64), (70, 45, 70)]), (1,))
    assert found is not None
    assert list(watch_details.hand_off(found)) == [
        "Pickling takes the worker's feeder thread 1.00 ms a batch (1.00 ms of CPU time); 400 B go through the pipe.",
        "A batch holds 2 tensors in 1.00 kB of shared memory, and 1 NumPy array of 80.0 B, copied through the pipe.",
        "A batch that the loop waits for arrives 3.50 ms after its worker has finished it.",
        "When the loop asks for a batch, 0.5 of at most 4 batches are ready.",
        "Head-of-line blocking: in 25 % of waits a later batch arrives first. This costs 4.75 ms a batch.",
        "Batches ready over the run, from 0 (▁) to 4 (█):",
        "▁ ▃▁  ▃",
    ]


def test_a_sparkline_keeps_its_gaps() -> None:
    points = [QueuePoint(at, ready, 1) for at, ready in ((0.5, 0.0), (1.5, 2.0), (4.5, 4.0), (5.5, 9.0))]
    assert watch_details.sparkline(points, 4) == "▁▅  ██"
