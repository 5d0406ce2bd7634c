"""A signal may arrive while our code runs. What the script's handler raises is the script's, and no fault of ours."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipebench.watch.record import recording
from pipebench.watch.record.lines import Fault
from pipebench.watch.record.recording import Recording, Settings


def _worker_was_killed() -> None:
    raise RuntimeError("a worker was killed")


@pytest.fixture
def handler() -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, lambda number, frame: _worker_was_killed())
    yield
    signal.signal(signal.SIGUSR1, before)


def test_what_a_handler_raises_reaches_the_script(
    handler: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = Recording(Settings(str(tmp_path)), "script")
    written: list[object] = []
    monkeypatch.setattr(recording.Recording, "write", lambda self, *lines: written.extend(lines))
    with pytest.raises(RuntimeError, match="a worker was killed"):
        ours.guarded("after_next", lambda: os.kill(os.getpid(), signal.SIGUSR1))
    assert not written and ours.faults == 0
    ours.guarded("after_next", _worker_was_killed)
    assert [type(one) for one in written] == [Fault]
