"""Counts how often lines of the user's own code run, for a moment and in one thread. Standard library only.

Python tells each line (`sys.settrace`), which takes up to half a microsecond. So one sample, one batch, or a part of
one iteration is counted at a time, and no more than `_EVENTS` lines and calls of it. Python calls a function of ours
for that, so code that is two calls below the limit of its recursion would reach it.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from threading import get_ident
from time import perf_counter_ns
from typing import Any, NamedTuple

from pipebench.watch.record.own_code import owner
from pipebench.watch.record.sample_calls import LineRun

_EVENTS = 40_000  # what the code does after that is not counted
_FEWEST = 3  # of a line
_MOST = 40  # lines


class Counted(NamedTuple):
    """The lines that ran most often, in so many nanoseconds. Not `whole`: after these it was not counted any more."""

    lines: list[LineRun]
    spent_ns: int
    whole: bool


class LineCounter:
    """Counts from `begin` to `end`, in the thread that calls both.

    It has `begun`, and `counts` until there were too many lines.
    """

    def __init__(self) -> None:
        self.begun = self.counts = False
        self._thread = self._events = self._began = self._ended = 0
        self._runs: dict[tuple[str, int, int], int] = {}  # by the instruction: a statement of several lines has several
        self._own: dict[str, bool] = {}
        self._frames: list[types.FrameType] = []

    def begin(self, frame: types.FrameType | None = None) -> bool:
        """Begins, in the functions that are called from now on, and in `frame` and those that called it.

        Returns whether it counts: not beside a debugger, or another tool that Python tells its lines.
        """
        if sys.gettrace() is not None:
            return False
        self._events, self._runs, self._frames = 0, {}, []
        while frame is not None:
            if not owner(frame.f_code.co_filename) and (frame.f_trace is None or self._is_ours(frame.f_trace)):
                frame.f_trace = self._runs_line
                self._frames.append(frame)
            frame = frame.f_back
        self._thread, self._began, self._ended = get_ident(), perf_counter_ns(), 0
        self.begun = self.counts = True
        sys.settrace(self._enters)
        return True

    def end(self) -> Counted | None:
        """Ends, and gives what was counted. None: nothing is known, or it was begun by another thread, and goes on."""
        if not self.begun or get_ident() != self._thread:
            return None
        whole = self.counts
        if whole and not self._is_ours(sys.gettrace()):  # the script has set a function of its own
            self._runs = {}
        self._stop()
        self.begun = False
        lines = self._lines()
        return Counted(lines, self._ended - self._began, whole) if lines else None

    def _lines(self) -> list[LineRun]:
        found: dict[tuple[str, int], int] = {}
        for (file, number, _), runs in self._runs.items():
            found[file, number] = max(runs, found.get((file, number), 0))
        most = sorted(found.items(), key=lambda one: -one[1])[:_MOST]
        return [LineRun(*place, runs) for place, runs in most if runs >= _FEWEST]

    def _is_ours(self, function: object) -> bool:
        return getattr(function, "__self__", None) is self

    def _enters(self, frame: types.FrameType, event: str, given: Any) -> Callable[..., Any] | None:
        """Python calls this for each call of a function."""
        self._events += 1
        if self._events > _EVENTS:
            self._stop()
            return None
        file = frame.f_code.co_filename
        own = self._own.get(file)
        if own is None:
            own = self._own[file] = not owner(file)
        return self._runs_line if own else None

    def _runs_line(self, frame: types.FrameType, event: str, given: Any) -> Any:
        """Python calls this for each line, return and exception of such a function."""
        if not self.counts:
            frame.f_trace = None  # left from before: a debugger has set another function since
            return None
        if event == "line":
            key = frame.f_code.co_filename, frame.f_lineno, frame.f_lasti
            self._runs[key] = self._runs.get(key, 0) + 1
            self._events += 1
            if self._events > _EVENTS:
                self._stop()
        elif event == "return":
            self._frames = [one for one in self._frames if one is not frame]  # nothing holds its locals any longer
        return self._runs_line

    def _stop(self) -> None:
        if self.counts:
            self.counts, self._ended = False, perf_counter_ns()
        if self._is_ours(sys.gettrace()):
            sys.settrace(None)
        for one in self._frames:
            if self._is_ours(one.f_trace):
                one.f_trace = None
        self._frames = []
