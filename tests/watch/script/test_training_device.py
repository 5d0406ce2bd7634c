"""The device that trains is asked, whichever is the current one. The devices are made up: no GPU is needed."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pipebench.render.watch_notes import sentence
from pipebench.results.watched import Note
from pipebench.watch.bound.schedule import DEVICE
from pipebench.watch.bound.session import Bound
from pipebench.watch.record.bound_lines import BoundPlan
from pipebench.watch.record.lines import LoopSums
from pipebench.watch.record.recording import Recording, Settings
from pipebench.watch.script import device_idle, optimisers
from pipebench.watch.script.backward import watched_backward
from pipebench.watch.script.device_idle import IdleDevice
from pipebench.watch.script.phases import LoopPhases
from pipebench.watch.script.training_device import TrainingDevice
from pipebench.watch.trial.patching import Trying


class Cuda:
    """Two devices, of which the first is the current one. Notes on which anything is done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.held, self.touched = 0, [0, 0], list[int]()
        for name, answer in {
            "is_initialized": lambda: True,
            "device_count": lambda: len(self.held),
            "current_device": lambda: self.now,
            "memory_reserved": lambda index: self.held[index],
            "device": self._device,
            "is_current_stream_capturing": lambda: self._touch(self.now) and False,
            "Event": lambda enable_timing: SimpleNamespace(record=lambda: self._touch(self.now), query=lambda: False),
            "synchronize": self._touch,
            "mem_get_info": lambda index: self._touch(index) and (1 << 30, 1 << 30),
        }.items():
            monkeypatch.setattr(torch.cuda, name, answer)

    def _touch(self, index: int) -> bool:
        self.touched.append(index)
        return True

    @contextlib.contextmanager
    def _device(self, index: int) -> Iterator[None]:
        before, self.now = self.now, index
        yield
        self.now = before


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Cuda:
    return Cuda(monkeypatch)


class Loss(torch.Tensor):
    """A loss on the second device."""

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return torch.device("cuda:1")


def _trained() -> TrainingDevice:
    """The device after one backward."""
    found = TrainingDevice()
    this = SimpleNamespace(device=IdleDevice(TrainingDevice()))
    here = SimpleNamespace(bare=None, open=[this], backward=False)
    gradients = SimpleNamespace(walks=False)
    loop: Any = SimpleNamespace(device=found, here=here, spend=lambda *_, **__: this, gradients=gradients, again={})
    loop.line_counts = SimpleNamespace(stop=lambda: None)
    watched_backward(loop, lambda *_: None)(torch.zeros(1).as_subclass(Loss))
    return found


@pytest.mark.parametrize(
    ("held", "index"), [((0, 0), None), ((0, 9), 1), ((9, 0), 0), ((9, 9), 0)], ids=["none", "other", "current", "both"]
)
def test_before_a_backward_it_is_one_on_which_the_script_holds_memory(
    held: tuple[int, int], index: int | None, cuda: Cuda
) -> None:
    cuda.held[:] = held
    assert TrainingDevice().index() == index
    assert cuda.touched == []


def test_of_several_that_are_not_the_current_one_none_is_guessed(cuda: Cuda) -> None:
    cuda.held[:] = 0, 9, 9
    assert TrainingDevice().index() is None


def test_an_allocator_without_a_count_tells_nothing(cuda: Cuda, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(index: int) -> int:
        raise RuntimeError("CUDAPluggableAllocator does not yet support getDeviceStats")

    monkeypatch.setattr(torch.cuda, "memory_reserved", refuses)
    assert TrainingDevice().index() is None


def test_a_backward_tells_it_even_if_the_script_holds_memory_elsewhere(cuda: Cuda) -> None:
    cuda.held[:] = 9, 9
    device = TrainingDevice()
    assert device.index() == 0
    device.backward_of((torch.zeros(1), torch.zeros(1).as_subclass(Loss)))
    assert device.index() == 1
    device.backward_of(torch.zeros(1))  # a loss on the CPU is of no device
    assert device.index() == 1


def test_where_there_is_none_it_is_asked_for_less_and_less_often(cuda: Cuda, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look builds the whole table of what an allocator counts."""
    asked = list[int]()
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda index: asked.append(index) or 0)
    device = TrainingDevice()
    assert {device.index() for _ in range(100)} == {None}
    assert len(asked) == 7 * len(cuda.held)


def test_without_cuda_there_is_none() -> None:
    device = TrainingDevice()
    device.backward_of(torch.zeros(1))
    device.synchronize()
    assert device.index() is None


def test_idle_time_is_of_the_device_that_trains(cuda: Cuda) -> None:
    idle = IdleDevice(_trained())
    idle.begin()
    idle.end()
    assert set(cuda.touched) == {1} and len(idle._flying) == 1 and cuda.now == 0


def test_no_event_is_recorded_where_no_device_is_known(cuda: Cuda) -> None:
    idle = IdleDevice(TrainingDevice())
    idle.begin()
    idle.end()
    assert cuda.touched == [] and not idle._flying


def test_no_event_is_asked_while_a_graph_is_captured(cuda: Cuda, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[bool]()
    idle = IdleDevice(_trained())
    idle.begin()
    idle.end()
    monkeypatch.setattr(idle._flying[0][2], "query", lambda: asked.append(True))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    idle.begin()
    idle.end()
    assert not asked and len(idle._flying) == 1


class _Timed:
    """An event that completes at once, at the moment of the device's clock at which it was recorded."""

    def __init__(self, at_ms: float) -> None:
        self.at_ms = at_ms

    def query(self) -> bool:
        return True

    def elapsed_time(self, other: _Timed) -> float:
        return other.at_ms - self.at_ms


def test_from_the_end_of_training_to_the_wait_the_device_has_no_training_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of a validation inside an iteration, nothing is the loop's: that iteration is not measured."""
    clock = [0.0]
    monkeypatch.setattr(device_idle, "_recorded", lambda index: _Timed(clock[0]))
    monkeypatch.setattr(device_idle, "_captures", lambda index: False)
    loop, written = LoopPhases(Recording(Settings(str(tmp_path)), "script")), list[Any]()
    monkeypatch.setattr(loop.recording, "write", written.append)
    loop.device.known = 0
    hooks = optimisers._Hooks(loop)
    backward = watched_backward(loop, lambda: hooks.after(None, (), {}))  # some step inside a backward
    train, valid = _Iterator(), _Iterator()

    def nexts(one: _Iterator) -> None:
        loop.before_next(one)
        loop.after_next(one, None)

    loop.pass_begins(train, 1, 0)
    for turn in range(4):
        nexts(train)
        backward()
        clock[0] += 1  # clipping
        hooks.before(None, (), {})
        hooks.after(None, (), {})
        clock[0] += 20  # logging
        if turn == 2:
            loop.pass_begins(valid, 2, 0)
            nexts(valid)
            clock[0] += 500
    nexts(train)
    loop.finish()
    idle = [one.idle for one in written if isinstance(one, LoopSums) and one.loader == 1 and one.idle]
    assert sum(one.waits for one in idle) == 4
    assert [one.besides_ns for one in idle if one.besides_ns is not None] == [20_000_000] * 3


class _Iterator:
    _num_workers = 0


@pytest.mark.parametrize("trains", [False, True])
def test_a_thread_beside_the_main_one_has_events_only_if_it_trains(trains: bool, cuda: Cuda, tmp_path: Path) -> None:
    """While the main thread captures a graph, no other thread may ask for an event."""
    loop, iterator = LoopPhases(Recording(Settings(str(tmp_path)), "script")), _Iterator()
    loop.device = _trained()

    def beside() -> None:
        loop.pass_begins(iterator, 1, 0)
        for _ in range(2):
            loop.before_next(iterator)
            loop.after_next(iterator, None)
            loop.here.open[-1].trained = trains

    other = threading.Thread(target=beside)
    other.start()
    other.join()
    assert bool(cuda.touched) == trains


def _planned(device: TrainingDevice) -> tuple[Any, BoundPlan]:
    """What `--bound` plans after the first batch: its means, and the plan as it is written."""
    written: list[Any] = []
    settings = SimpleNamespace(bound=400, warmup=0, loader=None)
    recording: Any = SimpleNamespace(settings=settings, write=written.append)
    loop: Any = SimpleNamespace(device=device)
    bound = Bound(recording, loop, lambda: None)
    bound._plan(_Iterator(), torch.zeros(200), 1)
    assert bound.alternation is not None
    return bound.alternation, written[0]


def test_the_bound_waits_for_the_device_that_trains_and_puts_batches_there(cuda: Cuda) -> None:
    alternation, plan = _planned(_trained())
    alternation.means.finish()
    assert set(cuda.touched) == {1} and alternation.means.device == "cuda:1" and plan.notes == []
    assert DEVICE in alternation.schedule.replays


def test_the_bound_says_that_no_device_is_known(cuda: Cuda) -> None:
    alternation, plan = _planned(TrainingDevice())
    assert cuda.touched == [] and DEVICE not in alternation.schedule.replays
    (note,) = plan.notes
    assert sentence(Note(note.code, note.values)) == (
        "Nothing was replayed from a device's memory, because it was not known which device trains."
    )


def test_trials_wait_for_the_device_that_trains(cuda: Cuda, tmp_path: Any) -> None:
    settings = SimpleNamespace(folder=str(tmp_path))
    recording: Any = SimpleNamespace(settings=settings, fault=None, before_stop=[], on=True)
    Trying(recording, {}, lambda: None, _trained()).trial.clock.finish()
    assert cuda.touched == [1]


def test_a_script_trains_on_the_host_while_no_device_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, asked in (("cuda", "is_initialized"), ("xpu", "is_initialized")):
        monkeypatch.setattr(getattr(torch, kind), asked, lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    device = TrainingDevice()
    assert not device.on_host()  # it has not trained yet
    device.backward_of(torch.ones(1))
    assert device.on_host()
    with monkeypatch.context() as patch:
        patch.setattr(torch.cuda, "is_initialized", lambda: True)
        assert not device.on_host()
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "cupy", SimpleNamespace())
        assert not device.on_host()
    device.backward_of([torch.ones(1), torch.ones(1, device="meta")])
    assert not device.on_host()
