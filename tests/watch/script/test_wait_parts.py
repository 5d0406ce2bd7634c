"""The parts of the wait: each is planted with a clock that only the plants move, and found to the nanosecond."""

from __future__ import annotations

import multiprocessing
import queue
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from clockwork import Clock, loop_by
from torch.utils.data import DataLoader, Dataset
from torch.utils.data import dataloader as torch_dataloader

from pipebench import watching
from pipebench.results.watched import WatchResult
from pipebench.watch.record import exclusive_time
from pipebench.watch.record.exclusive_time import local
from pipebench.watch.record.record_file import PIN, RECEIVE, UNPICKLE, WAIT_PARTS, WORKERS
from pipebench.watch.record.recording import Recording, Settings
from pipebench.watch.script import arrivals
from pipebench.watch.script.arrivals import Arrivals
from pipebench.watch.script.wait_parts import Passed, WaitParts, receiving

CLOCK = Clock()
SAMPLES, BATCH = 24, 4
BATCHES = SAMPLES // BATCH


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    loop_by(CLOCK, monkeypatch)
    return CLOCK


def rebuilt(number: int) -> int:
    CLOCK.burn(7_000)
    return number


class Slow:
    """Takes 7 µs to unpickle, in the process that unpickles it."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> Any:
        return rebuilt, (self.number,)


class Numbers(Dataset[Any]):
    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> int:
        CLOCK.burn(2_000)
        return index


class Indices:
    """A sampler that takes 10 µs for each index."""

    def __iter__(self) -> Iterator[int]:
        for index in range(SAMPLES):
            CLOCK.burn(10_000)
            yield index

    def __len__(self) -> int:
        return SAMPLES


class Groups:
    """A batch sampler that takes 40 µs for each batch."""

    def __iter__(self) -> Iterator[list[int]]:
        for first in range(0, SAMPLES, BATCH):
            CLOCK.burn(40_000)
            yield list(range(first, first + BATCH))

    def __len__(self) -> int:
        return BATCHES


def _loop(loader: Any, pin: bool = False) -> WatchResult:
    with watching() as seen:
        batches = iter(loader)
        batches._pin_memory = pin or batches._pin_memory
        for _ in batches:
            CLOCK.burn(50_000)
    return seen.result


def _found(result: WatchResult) -> dict[str, float]:
    """Nanoseconds of each part in an iteration. They add up to the wait, whatever they are."""
    wait_s = result.loop[0].s_per_iteration
    assert sum(one.s_per_iteration for one in result.wait_parts) == pytest.approx(wait_s)
    assert sum(one.share for one in result.wait_parts) == pytest.approx(1)
    return {one.part: one.s_per_iteration * 1e9 for one in result.wait_parts}


HOW = [{"sampler": Indices(), "batch_size": BATCH}, {"batch_sampler": Groups()}]


@pytest.mark.parametrize("how", HOW, ids=" and ".join)
def test_a_slow_sampler_is_a_part_of_its_own_without_workers(how: dict[str, Any]) -> None:
    found = _found(_loop(DataLoader(Numbers(), **how)))
    assert found == {"sampler": pytest.approx(40_000), "make-batch": pytest.approx(8_000)}


@pytest.mark.parametrize("how", HOW, ids=" and ".join)
def test_a_slow_sampler_is_a_part_of_its_own_with_workers(how: dict[str, Any]) -> None:
    """Two of six batches are asked for before the loop begins, and two by the iterations that are start-up."""
    loader: Any = DataLoader(Numbers(), num_workers=2, prefetch_factor=1, multiprocessing_context="fork", **how)
    result = _loop(loader)
    assert _found(result) == {"sampler": pytest.approx(2 * 40_000 / (BATCHES - 2))}
    assert isinstance(result.verdict.wait_part, str) and result.verdict.wait_part == "sampler"  # type: ignore[union-attr]


def _slow_to_unpickle(samples: list[int]) -> list[Slow]:
    return [Slow(number) for number in samples]


def test_unpickling_is_a_part_of_its_own() -> None:
    loader: Any = DataLoader(
        Numbers(), BATCH, num_workers=1, multiprocessing_context="fork", collate_fn=_slow_to_unpickle
    )
    assert _found(_loop(loader)) == {"unpickle": pytest.approx(BATCH * 7_000)}


def test_pinning_without_workers_is_a_part_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def pinned(data: Any, device: Any = None) -> Any:
        CLOCK.burn(9_000)
        return data

    monkeypatch.setattr(torch_dataloader._utils.pin_memory, "pin_memory", pinned)
    loader: Any = DataLoader(Numbers(), BATCH)
    monkeypatch.setattr(torch_dataloader._SingleProcessDataLoaderIter, "_pin_memory_device", None, raising=False)
    assert _found(_loop(loader, pin=True)) == {"make-batch": pytest.approx(8_000), "pin": pytest.approx(9_000)}


def test_the_classes_of_torch_are_as_before() -> None:
    kinds = (
        torch_dataloader._BaseDataLoaderIter,
        torch_dataloader._SingleProcessDataLoaderIter,
        torch_dataloader._MultiProcessingDataLoaderIter,
    )
    before = [dict(vars(kind)) for kind in kinds]
    _loop(DataLoader(Numbers(), BATCH))
    assert [dict(vars(kind)) for kind in kinds] == before
    assert "iter" not in vars(torch_dataloader)


# --- one queue


def _planted_queue() -> Any:
    """A queue of processes in which a message comes after 11 µs, takes 5 µs to receive and 7 µs to unpickle."""
    found: Any = multiprocessing.get_context("fork").Queue()
    poll, receive = found._poll, found._recv_bytes

    def _poll(*args: Any) -> Any:
        CLOCK.burn(11_000)
        return poll(*args)

    def _recv_bytes(*args: Any) -> Any:
        CLOCK.burn(5_000)
        return receive(*args)

    found._poll, found._recv_bytes = _poll, _recv_bytes
    found.put((0, Slow(0)))
    return found


def _parts(parts: WaitParts) -> dict[str, int]:
    return {name: spent for name, spent in zip(WAIT_PARTS, parts.take(), strict=True) if spent}


def test_a_queue_is_waited_for_then_received_from_then_unpickled() -> None:
    parts, planted = WaitParts(), _planted_queue()
    own = planted._recv_bytes
    parts.begin()
    assert parts.waiting_for(planted, lambda: planted.get(timeout=60)) == (0, 0)
    assert _parts(parts) == {"wait-for-worker": 11_000, "receive": 5_000, "unpickle": 7_000}
    assert planted._recv_bytes is own


def test_an_exception_leaves_the_queue_as_it_was() -> None:
    parts, planted = WaitParts(), _planted_queue()
    planted._recv_bytes = own = lambda: 1 / 0
    parts.begin()
    with pytest.raises(ZeroDivisionError):
        parts.waiting_for(planted, lambda: planted.get(timeout=60))
    assert planted._recv_bytes is own and _parts(parts) == {"wait-for-worker": 11_000}


def test_a_queue_without_bytes_is_left_alone() -> None:
    plain: Any = queue.Queue()
    plain.put(3)
    assert receiving(plain, plain.get, lambda: 1 / 0, lambda: 1 / 0) == 3
    assert receiving(object(), lambda: 4, lambda: 1 / 0, lambda: 1 / 0) == 4


def test_a_loader_inside_a_sample_has_no_parts() -> None:
    parts = WaitParts()
    parts.begin()
    local.timer = exclusive_time.StageTimer()
    try:
        planted = _planted_queue()
        parts.waiting_for(planted, lambda: planted.get(timeout=60))
    finally:
        local.timer = None
    assert sum(parts.timer.sums[1:]) == 0


# --- the pin-memory thread


@pytest.mark.parametrize(
    ("moments", "found"),
    [
        ((50, 120, 130, 190), {WORKERS: 10, RECEIVE: 20, UNPICKLE: 10, PIN: 60}),  # asked while it was received
        ((10, 20, 30, 90), {WORKERS: 100}),  # it lay ready
        ((130, 140, 150, 180), {WORKERS: 50, RECEIVE: 10, UNPICKLE: 10, PIN: 30}),  # nothing was there yet
    ],
)
def test_what_the_thread_does_counts_while_the_loop_waits(moments: Any, found: dict[int, int]) -> None:
    parts = WaitParts()
    parts.asked, parts.got = 100, 200
    parts.timer.sums[WORKERS] = 100
    parts.was_pinned(Passed(*moments, 7))
    assert {part: spent for part, spent in enumerate(parts.timer.sums) if spent} == found


class _Asked(queue.Queue[Any]):
    """Says when somebody waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()

    def get(self, *args: Any, **kwargs: Any) -> Any:
        self.asked.set()
        return super().get(*args, **kwargs)


def test_the_pin_memory_thread_is_waited_for_part_by_part(tmp_path: Path) -> None:
    """The thread begins when the loop already waits. So the loop waits for all that the thread does."""
    recording, follower = Recording(Settings(str(tmp_path)), "script"), Arrivals()
    workers, out = _planted_queue(), _Asked()

    class Module:
        @staticmethod
        def _pin_memory_loop(in_queue: Any, out_queue: Any, *rest: Any) -> None:
            assert out.asked.wait(60)
            number, data = in_queue.get(timeout=60)
            CLOCK.burn(9_000)
            out_queue.put((number, data))

    class Iterating:
        _data_queue = out

        def _get_data(self) -> Any:
            return self._data_queue.get(timeout=60)

    arrivals.watch_pinning(recording, follower, Module)
    arrivals.watch_queues(recording, follower, Iterating)
    thread = threading.Thread(target=Module._pin_memory_loop, args=(workers, out))
    thread.start()
    follower.parts.begin()
    assert Iterating()._get_data() == (0, 0)
    thread.join()
    assert _parts(follower.parts) == {"wait-for-worker": 11_000, "receive": 5_000, "unpickle": 7_000, "pin": 9_000}
    recording.patches.undo()


@pytest.mark.cuda
def test_pinned_batches_of_a_device_add_up() -> None:
    loader: Any = DataLoader(torch.zeros(SAMPLES, 1_000_000), BATCH, num_workers=1, pin_memory=True)
    with watching() as seen:
        for _ in loader:
            pass
    _found(seen.result)
