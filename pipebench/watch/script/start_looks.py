"""Looks where the main thread is before its first loop: in which of the user's lines, as of a dataset that is built.

A thread looks now and then, less often the longer that lasts, and ends when the first loop asks for a batch. It ends
before each fork of this process, too, and goes on after it: see `forks`.
"""

from __future__ import annotations

import _thread
import os
import sys
import threading
from time import perf_counter_ns
from typing import Any

from pipebench.watch.record.kernel_counts import OURS
from pipebench.watch.record.recording import Recording
from pipebench.watch.script.forks import pauses_at_forks
from pipebench.watch.script.looked_lines import LookedLines

_SOONEST_NS, _OF_ITS_AGE = 50_000_000, 200  # between two looks: a look takes some 50 µs of the thread's time
_PATIENCE_S = 1.0


class StartLooker:
    """Looks at the main thread from `begin` to `end`."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._seen = LookedLines()
        self._until = self._process = 0  # when looks ended; the process that looks (0: none)
        self._runs = False

    def begin(self) -> None:
        """Starts the looks, if this is the main thread."""
        if self._process or threading.current_thread() is not threading.main_thread():
            return
        self._seen = LookedLines()
        self._process = os.getpid()
        pauses_at_forks(self)
        self.go_on()

    def go_on(self) -> None:
        """Starts the thread again."""
        if self._runs or self._process != os.getpid() or not self._recording.on:
            return
        self._runs = True
        self._stop, self._gone = _thread.allocate_lock(), _thread.allocate_lock()  # a thread that ended holds its own
        self._stop.acquire()
        self._gone.acquire()
        _thread.start_new_thread(self._look_on, (threading.main_thread().ident or 0, self._stop, self._gone))

    def pause(self) -> None:
        """Ends the thread. `go_on` starts it again."""
        if self._runs:
            self._runs = False
            self._stop.release()
            self._gone.acquire(timeout=_PATIENCE_S)
            self._until = perf_counter_ns()

    def end(self) -> None:
        """Ends the looks, and writes what they found."""
        self.pause()
        if self._process == os.getpid():
            self._recording.write(self._seen.until(self._until))
        self._process = 0

    def _look_on(self, thread: int, stop: Any, gone: Any) -> None:
        native = threading.get_native_id()
        OURS.add(native)
        try:
            while self._recording.on and not stop.acquire(timeout=self._wait_s()):
                self._seen.note(sys._current_frames().get(thread))
        except Exception as error:
            self._recording.fault("looking at the start of the script", error)
        finally:
            OURS.discard(native)
            gone.release()

    def _wait_s(self) -> float:
        return max(_SOONEST_NS, (perf_counter_ns() - self._seen.began) // _OF_ITS_AGE) / 1e9
