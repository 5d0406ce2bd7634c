"""Counts the lines of the user's own code in some samples and batches of a process: see `record/line_counter.py`."""

from __future__ import annotations

from typing import Any, Literal

from pipebench.watch.record.line_counter import LineCounter
from pipebench.watch.record.own_code import users_function
from pipebench.watch.record.patches import unseen
from pipebench.watch.record.recording import Recording
from pipebench.watch.record.sample_calls import LineRuns

_SAMPLES = 2
_FIRST_NS = 300_000_000  # of making batches, before the first of them
_LATER = 8  # times as much, before the next one
_PASSES = 3  # in whose workers it is counted


class LinesOfSamples:
    """Counts in samples, and in what puts batches together, of one loader in one process."""

    def __init__(self, recording: Recording, loader: int, first_pass: int) -> None:
        self._recording, self._loader = recording, loader
        self._left = _SAMPLES if first_pass < _PASSES else 0
        self._busy, self._due_ns = 0, _FIRST_NS
        self._counter = LineCounter()
        self._part: Literal["", "samples", "collate"] = ""
        self._collates = False  # the next batch is to be counted where it is put together

    def due(self, busy_ns: int) -> bool:
        """Adds the time of a batch. Returns whether the next sample is to be counted."""
        self._busy += busy_ns
        if not self._left or self._busy < self._due_ns:
            return False
        self._due_ns = _LATER * self._busy
        self._collates = True
        return True

    def begins(self, part: Literal["", "samples", "collate"] = "") -> bool:
        """Called before a sample is made, or that part of a batch. Returns whether its lines are counted."""
        if self._counter.begun or not self._counter.begin():
            return False
        self._part = part
        self._left -= part != "collate"
        return True

    def ends(self, index: object = None, sample: object = None) -> None:
        """Called when it is made."""
        self._recording.guarded("counting lines", self._end)

    def _end(self) -> None:
        if (found := self._counter.end()) is not None:
            per: Literal["sample", "batch"] = "batch" if self._part else "sample"
            self._recording.write(LineRuns(self._loader, per, self._part, found.whole, found.spent_ns, found.lines))

    def counted(self, collate: Any) -> Any:
        """What puts the next batch together: `collate` itself if nothing is to be counted there."""
        if not self._collates:
            return collate
        self._collates = False
        if not users_function(collate):
            return collate

        @unseen
        def counting(*args: Any, **kwargs: Any) -> Any:
            self._recording.guarded("counting lines", self.begins, "collate")
            try:
                return collate(*args, **kwargs)
            finally:
                if self._part == "collate":
                    self.ends()

        return counting
