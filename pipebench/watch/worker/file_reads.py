"""Looks into some samples for reads of files: which mount gives how many bytes, and how long each read takes.

Python tells each call of a built-in function (`sys.setprofile`), for the sample only. A read counts only if the
position of its descriptor moved, so what comes out of Python's buffer is none. Reads inside libraries that are not
written in Python are not seen: `cv2.imread`, HDF5, Arrow, a page that is mapped.

To look takes half a microsecond for each call and return of the sample. Looks are as rare as it takes to stay at 0.2 %
of the time in which batches are made (the first few: at 1 %), and ten times as rare once enough reads are known.
"""

from __future__ import annotations

import _io
import io
import os
import stat
import sys
import types
import weakref
from time import perf_counter_ns
from typing import Any

from pipebench.watch.record import mounts, profilers
from pipebench.watch.record.from_handlers import from_a_handler
from pipebench.watch.record.patches import is_ours
from pipebench.watch.record.read_lines import ReadSums
from pipebench.watch.record.reads import Place, Reads
from pipebench.watch.record.recording import Recording

_FIRST_NS = 100_000_000  # of making batches, before the first look
_AT_FIRST, _OFTEN, _SELDOM = 100, 500, 5_000  # times what the looks took: so long are batches made for them
_FEW = 4  # looks, at first
_EACH_NS = 200_000  # what a look takes at least: Python may make functions ready for it
_ENOUGH, _IN_VAIN = 1_000, 20  # reads; looks that found none
_EVENTS = 50_000  # of a sample
_MOST_EVENT_NS = 5_000  # that it takes to be told of one, however busy the machine is
_TRIED = 200  # calls, to learn what it takes to be told of one
_MOST_CUT = 3  # samples of more calls
_SPREAD = 7  # one of so many first samples after a look is due
_OPEN = "open"
_ARRAY = "fromfile"  # NumPy reads through a copy of the descriptor
_NAMES = frozenset({"read", "read1", "readinto", "readinto1", "readline", "readlines", "readall", _OPEN, _ARRAY})
_BUFFERED = (io.BufferedReader, io.BufferedRandom)
_IMPORTS = "<frozen importlib"


class FileReads:
    """Looks into some samples of one loader, in one process."""

    def __init__(self, recording: Recording, loader: int) -> None:
        self._recording, self._loader = recording, loader
        self._over = False
        self._busy = self._took = self._looks = self._cut = self._count = self._waits = 0
        self._found, self._now = Reads(), Reads()
        self.samples = 0  # made, looked into or not
        self._samples = self._spent_ns = self._own = self._most = 0
        self._mounts = Mounts()
        self._event_ns = 0.0
        self._ended = False
        self._clear()

    def _clear(self) -> None:
        self._events = self._own_ns = self._began = self._opening = 0
        self._whole, self._name = True, ""  # of the function that is looked at; what it calls may be told between
        self._present: tuple[Any, int, int] | None = None  # a file that is read, its position, and since when
        self._last: weakref.ref[Any] | None = None  # the file that was read last
        self._opened_ns: int | None = None  # what an open took whose file was not read yet

    def due(self, busy_ns: int) -> bool:
        """Adds the time of a batch, whose samples are in `samples`. Returns whether a next one is looked into."""
        self._busy += busy_ns
        known = self._count >= _ENOUGH or (self._looks >= _IN_VAIN and not self._count)
        times = _SELDOM if known else _AT_FIRST if self._looks < _FEW else _OFTEN
        if self._over or self._busy < max(_FIRST_NS, times * self._took):
            return False
        self._waits = self._waits or 1 + self._looks % _SPREAD
        return True

    def waits(self) -> bool:
        """Whether it is a later sample's turn: the first one of a batch may differ from the others."""
        self._waits -= 1
        return self._waits > 0

    def begins(self) -> bool:
        """Called before samples are made. Returns whether they are looked into: not while something else looks."""
        if not profilers.is_free():
            return False
        self._event_ns = self._event_ns or self._learnt()
        self._clear()
        if self._ended:  # the last ones failed
            self._ended, self._took = False, self._took + self._own
            self._now.take()
        self._looks += 1
        self._began = perf_counter_ns()
        sys.setprofile(self._called)
        return True

    def ends(self, index: object = None, sample: object = None) -> None:
        """Called when they are made. `made` follows, with their number, if they did not fail."""
        now, present = perf_counter_ns(), sys.getprofile()
        mine = present is not None and getattr(present, "__self__", None) is self
        if mine:
            sys.setprofile(None)
        spent = now - self._began
        self._own = max(_EACH_NS, self._own_ns + int(self._events * self._event_ns))
        self._most = self._own_ns + self._events * _MOST_EVENT_NS
        if self._whole and mine:
            self._ended, self._spent_ns = True, spent
        else:
            self._now.take()
            self._took += spent
            self._cut += 1
            self._over = self._whole or self._cut >= _MOST_CUT  # the script has set a function of its own; or too many
        self._clear()

    def made(self, samples: int) -> None:
        """Counts the samples that were looked into, if that has just ended."""
        if self._ended:
            self._ended = False
            self._recording.guarded("adding up reads", self._add, samples)

    def _add(self, samples: int) -> None:
        self._samples += samples
        usual = samples * self._busy // self.samples if self.samples else self._spent_ns
        self._took += max(self._own, min(self._spent_ns - usual, self._most))
        self._found.include(self._now)

    def take(self, began: int) -> list[ReadSums]:
        """The line of what was found since the last call, if there is something to tell."""
        if not self._samples:
            return []
        samples, self._samples = self._samples, 0
        return [ReadSums(self._loader, began, self._found.take(), True, samples)]

    def _learnt(self) -> float:
        """The nanoseconds that it takes to be told of a call."""
        self._clear()
        began = perf_counter_ns()
        sys.setprofile(self._called)
        for _ in range(_TRIED):
            abs(0)
        sys.setprofile(None)
        return (perf_counter_ns() - began) / max(1, self._events)

    def _called(self, frame: types.FrameType, event: str, function: Any) -> None:
        """Python calls this at each call and return, with the built-in function that is called or returns."""
        self._events += 1
        try:
            if event == "c_call":
                if function.__name__ in _NAMES:
                    self._guarded(frame, function)
            elif self._name and event[1] == "_" and function.__name__ == self._name:  # no function in Python
                self._guarded(None, function)
            if self._events > _EVENTS:
                self._stop()
        except RecursionError:  # the script is near the limit: that is its own matter
            sys.setprofile(None)
            self._whole = False

    def _guarded(self, frame: types.FrameType | None, function: Any) -> None:
        now = perf_counter_ns()
        try:
            if frame is None:
                self._returned(now)
            else:
                self._begins(frame, function)
        except Exception as error:  # a file may be of any kind, and the script may be near its recursion limit
            self._stop()
            if from_a_handler(error):
                raise
        self._own_ns += perf_counter_ns() - now

    def _stop(self) -> None:
        sys.setprofile(None)
        self._whole = False

    def _begins(self, frame: types.FrameType, function: Any) -> None:
        file = frame.f_code.co_filename
        if file.startswith(_IMPORTS) or is_ours(file):
            return
        name, holder = function.__name__, getattr(function, "__self__", None)
        if name == _OPEN:
            if holder is _io:
                self._name, self._present, self._opening = name, None, perf_counter_ns()
            return
        raw = self._last() if name == _ARRAY and self._last is not None else _raw(holder)
        at = _position(raw) if raw is not None else None
        if at is not None:
            self._name, self._opening, self._present = name, 0, (raw, at, perf_counter_ns())

    def _returned(self, now: int) -> None:
        self._name = ""
        if self._opening:
            self._opened_ns, self._opening = now - self._opening, 0
        if self._present is None:
            return
        raw, before, began = self._present
        self._present = None
        moved = (_position(raw) or 0) - before
        last = self._last() if self._last is not None else None
        self._last = weakref.ref(raw)
        if moved <= 0 or (place := self._mounts.of(raw.fileno())) is None:
            return
        self._now.add(place, now - began, moved)
        self._count += 1
        if raw is not last and not before and self._opened_ns is not None:  # else it was open already
            self._now.opened(place, self._opened_ns)
            self._opened_ns = None


def _raw(one: Any) -> Any:
    """The file of the system behind an object that is read; None if there is none. Classes of others are left alone."""
    if type(one) is io.TextIOWrapper:
        one = one.buffer
    if type(one) in _BUFFERED:
        one = one.raw
    return one if type(one) is io.FileIO and not one.closed else None


def _position(raw: Any) -> int | None:
    try:
        return None if raw.closed else int(raw.tell())
    except OSError:  # a pipe
        return None


class Mounts:
    """The mounts of this process, as places. A file's is asked for once for each device, if that is mounted once."""

    def __init__(self) -> None:
        self._mounts: list[mounts.Mount] = []
        self._of: dict[int, Place | None] = {}
        self._asked = 0

    def of(self, number: int) -> Place | None:
        """The type of the file system and the mount point of an open file; None if it is on no storage."""
        told = os.fstat(number)
        if not stat.S_ISREG(told.st_mode):
            return None
        if told.st_dev in self._of:
            return self._of[told.st_dev]
        on = self._on(told.st_dev)
        path = os.readlink(f"/proc/self/fd/{number}") if len(on) != 1 else ""
        found = mounts.of_file(self._mounts, told.st_dev, path)
        place = (found.kind, found.point) if found is not None and found.kind not in mounts.NO_STORAGE else None
        if len(on) == 1 and len(self._of) < _EVENTS:
            self._of[told.st_dev] = place
        return place

    def _on(self, device: int) -> list[mounts.Mount]:
        """The mounts of a device. One that is not known may be mounted since: then all are asked for again."""
        on = [one for one in self._mounts if one.device == device]
        if not on and self._asked < _SPREAD:
            self._asked += 1
            self._mounts = mounts.mounts()
            on = [one for one in self._mounts if one.device == device]
        return on
