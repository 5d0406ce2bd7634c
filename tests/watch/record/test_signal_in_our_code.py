"""A signal may arrive while our code runs. What the script's handler raises is the script's, and no fault of ours."""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pipebench import watching
from pipebench.watch.launch.watched_script import WatchedScript
from pipebench.watch.record import recording
from pipebench.watch.record.from_handlers import from_a_handler
from pipebench.watch.record.last_sample import LastSample, PresentSample, last_sample
from pipebench.watch.record.lines import Fault
from pipebench.watch.record.recording import Recording, Settings, told
from pipebench.watch.script import made
from pipebench.watch.trial import memo


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


class _Handler:
    """Handlers of frameworks are objects, methods and partials too."""

    def __call__(self, *_: object) -> None:
        _worker_was_killed()


@pytest.mark.parametrize("kind", [_Handler(), _Handler().__call__, functools.partial(_Handler(), 1)])
def test_whatever_kind_of_handler_raised(kind: Callable[..., None]) -> None:
    before = signal.signal(signal.SIGUSR1, kind)
    try:
        with pytest.raises(RuntimeError) as raised:
            signal.raise_signal(signal.SIGUSR1)
        assert from_a_handler(raised.value)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert not from_a_handler(raised.value)


class _Meets:
    """An object of the script's. The signal comes while we ask it."""

    def _signal(self, *_: object) -> Any:
        signal.raise_signal(signal.SIGUSR1)

    __repr__ = __eq__ = __len__ = _signal  # type: ignore[assignment]
    dataset = property(_signal)


_ASKED: dict[str, Callable[[Path], object]] = {
    "the index of a sample": lambda folder: PresentSample(str(folder / "one.spans")).note(_Meets()),
    "an attribute of a loader": lambda folder: made.read(_Meets(), "dataset"),
    "a sample that is kept or compared": lambda folder: memo._equal(_Meets(), 1),
    "what an exception says": lambda folder: told(ValueError(_Meets())),
}


@pytest.mark.parametrize("asked", _ASKED.values(), ids=_ASKED)
def test_nothing_of_ours_swallows_it(asked: Callable[[Path], object], handler: None, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="a worker was killed"):
        asked(tmp_path)


def test_what_our_own_call_raises_asks_for_no_handlers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch of a data set that makes whole batches is noted by a list, which is no number."""
    present = PresentSample(str(tmp_path / "one.spans"))
    present.begin()
    monkeypatch.setattr(signal, "getsignal", lambda number: pytest.fail("it takes a tenth of a millisecond"))
    present.note([3, 4])
    assert last_sample(tmp_path / "one.spans") == LastSample("[3, 4]", inside=True)


def test_at_the_end_of_a_script_all_is_written_first(
    handler: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = WatchedScript(Settings(str(tmp_path)))
    monkeypatch.setattr(script, "_end_loops", lambda: os.kill(os.getpid(), signal.SIGUSR1))
    with pytest.raises(RuntimeError, match="a worker was killed"):
        script.finish()
    (records,) = tmp_path.glob("*.spans")
    kinds = [line.partition(",")[0] for line in records.read_text().splitlines()]
    assert kinds[-2:] == ['["LibraryThreads"', '["Moment"'] and '["TimeSpent"' in kinds and not script.recording.on


def test_a_block_that_is_watched_has_its_result(handler: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="a worker was killed"), watching() as seen:
        monkeypatch.setattr(seen._script, "_end_loops", lambda: os.kill(os.getpid(), signal.SIGUSR1))
    assert seen.result.status == 0 and not [one for one in seen.result.notes if getattr(one, "code", "") == "fault"]
