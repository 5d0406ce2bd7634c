"""Counts how often lines of the user's own code run, for a moment and in one thread. Standard library only.

Python tells each line (`sys.settrace`), which takes a part of a microsecond. So one sample, one batch, or one
iteration is counted at a time, and no more than `_EVENTS` lines and calls of it.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

from pipebench.watch.record.own_code import owner
from pipebench.watch.record.sample_calls import LineRun

_EVENTS = 40_000  # what the code does after that is not counted
_FEWEST = 3  # of a line
_MOST = 40  # lines


class LineCounter:
    """Counts from `begin` to `end`, in the thread that calls both.

    It has `begun`, and `counts` until there were too many lines.
    """

    def __init__(self) -> None:
        self.begun = self.counts = False
        self.whole = True
        self._events = 0
        self._runs: dict[tuple[int, int], int] = {}
        self._codes: dict[int, types.CodeType] = {}
        self._frames: list[types.FrameType] = []

    def begin(self, frame: types.FrameType | None = None) -> bool:
        """Begins, in the functions that are called from now on, and in `frame` and those that called it.

        Returns whether it counts: not beside a debugger, or another tool that Python tells its lines.
        """
        if sys.gettrace() is not None:
            return False
        self.whole, self._events = True, 0
        self._runs, self._codes, self._frames = {}, {}, []
        while frame is not None:
            if not owner(frame.f_code.co_filename) and frame.f_trace is None:
                frame.f_trace = self._runs_line
                self._frames.append(frame)
                self._codes[id(frame.f_code)] = frame.f_code
            frame = frame.f_back
        self.begun = self.counts = True
        sys.settrace(self._enters)
        return True

    def end(self) -> list[LineRun] | None:
        """Ends, and gives the lines, those first that ran most often. None: nothing is known of them."""
        present = sys.gettrace()
        if present is not None and getattr(present, "__self__", None) is self:
            sys.settrace(None)
        elif self.whole:  # the script has set a function of its own
            self._runs = {}
        known = bool(self._runs)
        self.begun = self.counts = False
        for one in self._frames:
            if getattr(one.f_trace, "__self__", None) is self:
                one.f_trace = None
        self._frames = []
        return self._lines() if known else None

    def _lines(self) -> list[LineRun]:
        found: dict[tuple[str, int], int] = {}
        for (key, number), runs in self._runs.items():
            place = self._codes[key].co_filename, number
            found[place] = found.get(place, 0) + runs
        most = sorted(found.items(), key=lambda one: -one[1])[:_MOST]
        return [LineRun(*place, runs) for place, runs in most if runs >= _FEWEST]

    def _enters(self, frame: types.FrameType, event: str, given: Any) -> Callable[..., Any] | None:
        """Python calls this for each call of a function."""
        self._events += 1
        if self._events > _EVENTS:
            self._stop()
            return None
        code = frame.f_code
        if owner(code.co_filename):
            return None
        self._codes[id(code)] = code
        return self._runs_line

    def _runs_line(self, frame: types.FrameType, event: str, given: Any) -> Any:
        """Python calls this for each line, return and exception of such a function."""
        if event == "line" and self.counts:
            key = id(frame.f_code), frame.f_lineno
            self._runs[key] = self._runs.get(key, 0) + 1
            self._events += 1
            if self._events > _EVENTS:
                self._stop()
        return self._runs_line

    def _stop(self) -> None:
        self.whole = self.counts = False
        sys.settrace(None)
