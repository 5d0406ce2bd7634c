"""Looks where the thread of a training loop is, besides waiting and training: in which of the user's lines.

A thread of this process looks at random moments while `advise` watches, and no longer: nothing is looked at while
changes are tried. What waits for something lets this thread run, so such places are seen as they are.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import CO_GENERATOR
from types import FrameType
from typing import Any, NamedTuple

from pipebench.watch.record.patches import is_ours
from pipebench.watch.record.recording import Recording
from pipebench.watch.record.trial_lines import LoopLooks, PlaceLooks
from pipebench.watch.script.made import within

_EACH_S = 0.01
_WRITTEN_EACH_S = 1.0
_DEEPEST = 60
_MOST_NAMES = 8
_TORCH = f"{os.sep}torch{os.sep}"
_TRAINING = tuple(_TORCH + one for one in ("nn", "autograd", "_tensor.py", "optim", "amp", "_dynamo", "_ops.py"))
_ITERATES = ("__next__", "__iter__")  # of what a script or a library puts around a loader
Guarded = Callable[[Callable[[], object]], object]
Key = tuple[int, tuple[str, ...]]


class _Loop(NamedTuple):
    """The loop that took the last batch: its loader, its frame by identity, and how many batches it took."""

    loader: int
    frame: int
    file: str
    turn: int


class _Seen:
    """What looks at one place found."""

    def __init__(self) -> None:
        self.looks = self.turns = self.ns = self.cpu_ns = 0
        self.last = -1


class LoopLooker:
    """Looks at the thread that takes batches. `came` is called by it for each batch, and `left` at a pass's end."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._loop: _Loop | None = None
        self._thread: int | None = None
        self._clock: int | None = None
        self._on = False
        self._turns, self._found = 0, dict[Key, _Seen]()
        self._before: tuple[Key, int, int, int] | None = None
        self._written = time.monotonic() + _WRITTEN_EACH_S

    @contextmanager
    def at_batch(self, number: Callable[[], int | None], frame: FrameType, guarded: Guarded) -> Iterator[None]:
        """Around the taking of a batch by the caller of torch's iterator. `number` says of which loader."""
        if not self.recording.on:
            yield
            return
        guarded(lambda: self.came(number(), frame))
        try:
            yield
        except BaseException:
            guarded(self.left)
            raise

    def came(self, loader: int | None, frame: FrameType | None) -> None:
        """Notes that the loop asks for a batch. `frame` is that of the caller of torch's iterator."""
        if loader is None:
            return
        if self._thread is None:
            self._begin()
        if self._thread != threading.get_ident():
            return
        loop = _loop_of(frame)
        if self._loop is not None and (self._loop.loader != loader or time.monotonic() >= self._written):
            self._write(self._loop)
        turn = self._loop.turn + 1 if self._loop is not None else 0
        self._turns += 1
        self._loop = _Loop(loader, id(loop), loop.f_code.co_filename, turn) if loop is not None else None

    def left(self) -> None:
        """Notes that the pass is over: what comes now is no part of the loop."""
        if self._thread == threading.get_ident() and self._loop is not None:
            self._write(self._loop)
            self._loop = None

    def end(self) -> None:
        self._on = False

    def _begin(self) -> None:
        self._thread, self._on = threading.get_ident(), True
        clock: Any = getattr(time, "pthread_getcpuclockid", None)
        self._clock = clock(self._thread) if clock is not None else None
        threading.Thread(target=self._look_on, name="pipebench looks", daemon=True).start()

    def _write(self, loop: _Loop) -> None:
        self._written = time.monotonic() + _WRITTEN_EACH_S
        (turns, self._turns), (found, self._found) = (self._turns, 0), (self._found, {})
        places = [
            PlaceLooks(line, list(names), one.looks, one.turns, one.ns, one.cpu_ns)
            for (line, names), one in list(found.items())
        ]
        if turns:
            self.recording.write(LoopLooks(loop.loader, loop.file, turns, places))

    def _look_on(self) -> None:
        chance = random.Random()
        while self._on and self.recording.on:
            time.sleep(_EACH_S * (0.5 + chance.random()))
            try:
                self._look()
            except Exception as error:
                self.recording.fault("looking at the loop", error)
                return

    def _look(self) -> None:
        loop, thread = self._loop, self._thread
        frame = sys._current_frames().get(thread) if thread is not None else None
        key = _place(frame, loop.frame) if loop is not None and frame is not None else None
        if loop is None or key is None:
            self._before = None
            return
        now, cpu = time.perf_counter_ns(), time.clock_gettime_ns(self._clock) if self._clock is not None else 0
        one = self._found.setdefault(key, _Seen())
        one.looks += 1
        one.turns += one.last != loop.turn
        one.last = loop.turn
        if self._before is not None and self._before[:2] == (key, loop.turn) and self._clock is not None:
            one.ns += now - self._before[2]
            one.cpu_ns += cpu - self._before[3]
        self._before = (key, loop.turn, now, cpu)


def _loop_of(frame: FrameType | None) -> FrameType | None:
    """The frame of the loop that takes batches, outside of torch's loaders and of what is put around them."""
    for one in _outwards(frame):
        code = one.f_code
        around = code.co_flags & CO_GENERATOR or code.co_name in _ITERATES
        if not (around or within(code.co_filename)):
            return one
    return None


def _place(frame: FrameType, loop: int) -> Key | None:
    """The line of the loop, and what it calls. None: it waits or trains, or the thread is elsewhere."""
    names: list[str] = []
    for one in _outwards(frame):
        if id(one) == loop:
            return one.f_lineno, tuple(reversed(names[-_MOST_NAMES:]))
        file = one.f_code.co_filename
        if is_ours(file) or within(file) or any(part in file for part in _TRAINING):
            return None
        names.append(one.f_code.co_qualname)
    return None


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    for _ in range(_DEEPEST):
        if frame is None:
            return
        yield frame
        frame = frame.f_back
