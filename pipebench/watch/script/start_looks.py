"""Looks where the main thread is before its first loop: in which of the user's lines, as of a dataset that is built.

A thread looks now and then, less often the longer that lasts, and ends when the first loop asks for a batch. There is
none from a fork of this process on: what comes then is not known.
"""

from __future__ import annotations

import _thread
import sys
import threading
from collections import Counter
from collections.abc import Iterable
from time import perf_counter_ns
from types import CodeType, FrameType
from typing import Any

from pipebench.watch.record.kernel_counts import OURS
from pipebench.watch.record.own_code import line_reached, owner
from pipebench.watch.record.program_lines import StartLooks
from pipebench.watch.record.recording import Recording
from pipebench.watch.record.trial_lines import LineLooks
from pipebench.watch.script.forks import pauses_at_forks
from pipebench.watch.script.look_counts import count_line, line_of
from pipebench.watch.script.loop_place import outwards
from pipebench.watch.script.own_line import OwnLine

_SOONEST_NS, _OF_ITS_AGE = 50_000_000, 200  # between two looks: a look takes some 50 µs of the thread's time
_DEEPEST = 200  # frames: imports of packages lie deep
_PATIENCE_S = 1.0


class StartLooker:
    """Looks at the main thread from `begin` to `end`."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._lines: Counter[OwnLine] = Counter()
        self._looks = self._imports = 0
        self._began = perf_counter_ns()
        self._runs = False

    def begin(self) -> None:
        """Starts the looks, if this is the main thread."""
        if self._runs or threading.current_thread() is not threading.main_thread():
            return
        self._began = perf_counter_ns()
        self._runs = True
        self._stop, self._gone = _thread.allocate_lock(), _thread.allocate_lock()  # a thread that ended holds its own
        self._stop.acquire()
        self._gone.acquire()
        pauses_at_forks(self)
        _thread.start_new_thread(self._look_on, (threading.get_ident(), self._stop, self._gone))

    def end(self) -> None:
        """Ends the looks, and writes what they found."""
        if not self._runs:
            return
        self._runs = False
        self._stop.release()
        self._gone.acquire(timeout=_PATIENCE_S)
        found = [LineLooks(*one, looks) for one, looks in self._lines.items()]
        self._recording.write(StartLooks(self._began, perf_counter_ns(), self._looks, found, self._imports))

    pause = end  # before a fork

    def _look_on(self, thread: int, stop: Any, gone: Any) -> None:
        native = threading.get_native_id()
        OURS.add(native)
        try:
            while self._recording.on and not stop.acquire(timeout=self._wait_s()):
                self._note(sys._current_frames().get(thread))
        except Exception as error:
            self._recording.fault("looking at the start of the script", error)
        finally:
            OURS.discard(native)
            gone.release()

    def _note(self, frame: FrameType | None) -> None:
        """Counts one look. What a library imports late, as in `Adam(...)`, is no work of the line that calls it."""
        path = tuple(_path(frame))
        self._looks += 1
        users = next((place for place, (code, _) in enumerate(path) if not owner(code.co_filename)), None)
        if any(_imports(code) for code, _ in path[:users]):
            self._imports += 1
        elif users is not None:
            lines = [one for one in reversed(path) if not one[0].co_filename.startswith("<frozen")]
            count_line(self._lines, line_of(lines))

    def _wait_s(self) -> float:
        return max(_SOONEST_NS, (perf_counter_ns() - self._began) // _OF_ITS_AGE) / 1e9


def _path(frame: FrameType | None) -> Iterable[tuple[CodeType, int]]:
    """The lines of a thread, the innermost first, without those of `watch`."""
    for one in outwards(frame, _DEEPEST):
        if owner(one.f_code.co_filename) != "pipebench":
            yield one.f_code, line_reached(one)


def _imports(code: CodeType) -> bool:
    """Whether this is Python's own way to import."""
    return code.co_filename.startswith("<frozen importlib")
