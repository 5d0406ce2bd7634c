"""What loops in step write, and in which waits an idle device counts. The events are called by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipebench.watch.read.decoding import read
from pipebench.watch.record.lines import LoadersTogether, LoopSums
from pipebench.watch.record.recording import Recording, Settings
from pipebench.watch.script import device_idle
from pipebench.watch.script.phases import LoopPhases


class _Iterator:
    pass


class _Device:
    """Its clock moves by hand; each event is done at once."""

    def __init__(self) -> None:
        self.now_ms = 0.0

    def recorded(self) -> Any:
        return _Event(self.now_ms)


class _Event:
    def __init__(self, at_ms: float) -> None:
        self._at_ms = at_ms

    def query(self) -> bool:
        return True

    def elapsed_time(self, other: _Event) -> float:
        return other._at_ms - self._at_ms


def _begun(loop: LoopPhases, loader: int) -> _Iterator:
    iterator = _Iterator()
    loop.loader_opens()
    loop.pass_begins(iterator, loader, 0)
    return iterator


@pytest.fixture
def loop(tmp_path: Path) -> LoopPhases:
    return LoopPhases(Recording(Settings(str(tmp_path)), "script"))


def test_loaders_in_step_are_said_once(loop: LoopPhases) -> None:
    iterators = [_begun(loop, number) for number in (1, 2, 3)]
    for _ in range(50):
        for one in iterators:
            loop.before_next(one)
            loop.after_next(one, None)
    loop.finish()
    lines, _ = read(Path(loop.recording.file.path))
    assert [one for one in lines if isinstance(one, LoadersTogether)] == [LoadersTogether(1, 2), LoadersTogether(2, 3)]


def test_a_device_that_is_idle_in_start_up_or_at_the_end_of_a_pass_waits_in_no_iteration(
    loop: LoopPhases, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = _Device()
    monkeypatch.setattr(device_idle, "_recorded", lambda index: device.recorded())
    iterator = _begun(loop, 1)
    for waited_ms in (2000, 1, 2):
        loop.before_next(iterator)
        device.now_ms += waited_ms
        loop.after_next(iterator, None)
    loop.before_next(iterator)
    device.now_ms += 500
    loop.after_next(iterator, "exhausted")
    lines, _ = read(Path(loop.recording.file.path))
    idle = [one.idle for one in lines if isinstance(one, LoopSums) and one.idle is not None]
    assert (sum(one.idle_ns for one in idle), sum(one.waits for one in idle)) == (3_000_000, 2)
