"""Counts the lines of the user's own code in some iterations of each loop: see `record/line_counter.py`.

Not where the model runs and a part of it is compiled: torch's compiler reacts to a function that Python tells lines.
"""

from __future__ import annotations

import os
import sys
import weakref
from typing import Literal

from pipebench.watch.record.line_counter import LineCounter
from pipebench.watch.record.recording import Recording
from pipebench.watch.record.sample_calls import LineRuns

_TIMES = 2  # that each part of the iterations of a loop is counted
_FIRST_NS, _AGAIN_NS = 1_000_000_000, 4_000_000_000  # after the loop was met, and after the first time
_ASKED_NS = 250_000_000  # between two of them, and until another loop may have begun
_GIVEN_UP_NS = 60_000_000_000  # a part that did not come: as what follows a step in a loop that does not train
_FEWEST = 3  # iterations of the pass before: in the first ones, libraries are loaded
Part = Literal["wait", "before", "after"]
_PARTS: tuple[Part, ...] = ("wait", "before", "after")


class LinesOfLoops:
    """Counts in the loops of the main thread, with its `counter`.

    `asked_ns` is when `begin` is to be called next, or later.
    """

    def __init__(self, recording: Recording) -> None:
        self.asked_ns = 0
        self._recording = recording
        self.counter = LineCounter()
        self._loader = 0
        self._part: Part = "before"
        self._due_ns: dict[tuple[int, Part], list[int]] = {}  # when each part is to be counted, or later
        recording.before_stop.append(self.stop)
        _present[:] = [weakref.ref(self.counter)]
        if not _at_forks:
            _at_forks.append(True)
            os.register_at_fork(after_in_child=_ends_in_child)

    def begin(self, loader: int, part: Part, turn: int, now: int, model: bool) -> None:
        """Begins to count if it is time. `model`: the model runs before `stop` is called, or may do so."""
        if (loader, part) not in self._due_ns:
            due_ns = [now + _FIRST_NS + one * _AGAIN_NS for one in range(_TIMES)]
            self._due_ns |= {(loader, one): [*due_ns] for one in _PARTS}
        due = self._due_ns[loader, part]
        if due and now >= due[0] and turn >= _FEWEST and not self.counter.begun:
            if model and compiled():
                due.clear()
            elif self.counter.begin(sys._getframe(1)):
                due.pop(0)
                due[:] = [max(one, now + _AGAIN_NS) for one in due]
                self._loader, self._part = loader, part
                self.asked_ns = now + _ASKED_NS
                return
        waits = [one[0] for one in self._due_ns.values() if one and now < one[0] + _GIVEN_UP_NS]
        self.asked_ns = min([now + _ASKED_NS, *waits])

    def stop(self) -> None:
        """Ends it. Called each time that another part of an iteration begins, in any thread."""
        if self.counter.begun:
            self._recording.guarded("counting lines", self._end)

    def _end(self) -> None:
        if (found := self.counter.end()) is not None:
            lines = LineRuns(self._loader, "iteration", self._part, found.whole, found.spent_ns, found.lines)
            self._recording.write(lines)


_present: list[weakref.ref[LineCounter]] = []  # the last one. Python keeps what it calls at forks until it ends
_at_forks: list[bool] = []


def _ends_in_child() -> None:
    for one in _present:
        if (counter := one()) is not None:
            counter.end()


def compiled() -> bool:
    """Whether torch has compiled anything in this process."""
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", None)
    return bool(counters and counters.get("frames"))
