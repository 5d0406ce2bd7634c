"""Counts the lines of the user's own code in some iterations of each loop: see `record/line_counter.py`.

Not where the model runs and a part of it is compiled: torch's compiler reacts to a function that Python tells lines.
"""

from __future__ import annotations

import sys
from typing import Literal

from pipebench.watch.record.line_counter import LineCounter
from pipebench.watch.record.recording import Recording
from pipebench.watch.record.sample_calls import LineRuns

_LOOKS = 2  # at each part of the iterations of a loop
_FIRST_NS, _AGAIN_NS = 1_000_000_000, 4_000_000_000  # after the first iteration, and after the first of these looks
_ASKED_NS = 250_000_000
_FEWEST = 3  # iterations of the pass before: in the first ones, libraries are loaded
Part = Literal["wait", "before", "after"]


class LineLooks:
    """Looks at the loops of the main thread.

    `asked_ns` is when `begin` is to be called next, or later.
    """

    def __init__(self, recording: Recording) -> None:
        self.asked_ns = 0
        self._recording = recording
        self._counter = LineCounter()
        self._loader = 0
        self._part: Part = "before"
        self._left: dict[tuple[int, Part], int] = {}  # looks
        self._next_ns: dict[tuple[int, Part], int] = {}
        recording.before_stop.append(self.stop)

    def begin(self, loader: int, part: Part, turn: int, now: int, model: bool) -> None:
        """Begins to count if it is time. `model`: the model runs before `stop` is called, or may do so."""
        if not self.asked_ns:
            self.asked_ns = now + _FIRST_NS
            return
        self.asked_ns = now + _ASKED_NS
        key = loader, part
        left = self._left.get(key, _LOOKS)
        if not left or now < self._next_ns.get(key, 0) or turn < _FEWEST or self._counter.begun:
            return
        if not (model and _compiled()):
            self._left[key], self._next_ns[key] = left - 1, now + _AGAIN_NS
            self._loader, self._part = key
            self._counter.begin(sys._getframe(1))

    def stop(self) -> None:
        """Ends it. Called each time that another part of an iteration begins."""
        if self._counter.begun:
            self._recording.guarded("counting lines", self._end)

    def _end(self) -> None:
        if lines := self._counter.end():
            self._recording.write(LineRuns(self._loader, "iteration", self._part, self._counter.whole, lines))


def _compiled() -> bool:
    """Whether torch has compiled anything in this process."""
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", None)
    return bool(counters and counters.get("frames"))
