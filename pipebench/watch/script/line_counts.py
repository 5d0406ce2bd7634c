"""Counts the lines of the user's own code in some iterations of each loop: see `record/line_counter.py`.

In some others it notices what is computed again: see `worker/repeated_calls.py`. Neither is done where the model runs
and a part of it is compiled: torch's compiler reacts to a function that Python tells lines, or calls.
"""

from __future__ import annotations

import os
import sys
import weakref
from threading import get_ident
from typing import Any, Literal

from pipebench.watch.record.line_counter import LineCounter
from pipebench.watch.record.recording import Recording
from pipebench.watch.record.sample_calls import LineRuns
from pipebench.watch.record.trial_lines import NO_LOADER
from pipebench.watch.worker.repeated_calls import RepeatedCalls

_TIMES = 2  # that each part of the iterations of a loop is counted
_FIRST_NS, _AGAIN_NS = 1_000_000_000, 4_000_000_000  # after the loop was met, and after the first time
_ASKED_NS = 250_000_000  # between two of them, and until another loop may have begun
_GIVEN_UP_NS = 60_000_000_000  # a part that did not come: as what follows a step in a loop that does not train
_FEWEST = 3  # iterations of the pass before: in the first ones, libraries are loaded
_CALLS_NS = 1_500_000_000  # from one iteration in which calls are looked at to the next, and before the first
Part = Literal["wait", "before", "after"]
_PARTS: tuple[Part, ...] = ("wait", "before", "after")


class LinesOfLoops:
    """Counts in the loops of the main thread, with its `counter`.

    `asked_ns` is when `begin` is to be called next, or later. `looking`: what looks at calls now, in an iteration with
    this number and in this thread.
    """

    def __init__(self, recording: Recording) -> None:
        self.asked_ns = 0
        self._recording = recording
        self.counter = LineCounter()
        self._loader = 0
        self._part: Part = "before"
        self._due_ns: dict[tuple[int, Part], list[int]] = {}  # when each part is to be counted, or later
        self._calls: dict[int, RepeatedCalls] = {}
        self._calls_ns: dict[int, int] = {}  # when they are to be looked at, or later
        self.looking: tuple[RepeatedCalls, int, int] | None = None
        recording.before_stop.append(self.stop)
        _present[:] = [weakref.ref(self)]
        if not _at_forks:
            _at_forks.append(True)
            os.register_at_fork(after_in_child=_ends_in_child)

    def begin(self, loader: int, part: Part, turn: int, now: int, model: bool) -> None:
        """Begins to count if it is time. `model`: the model runs before `stop` is called, or may do so."""
        if (loader, part) not in self._due_ns:
            due_ns = [now + _FIRST_NS + one * _AGAIN_NS for one in range(_TIMES)]
            self._due_ns |= {(loader, one): [*due_ns] for one in _PARTS}
        due = self._due_ns[loader, part]
        free = turn >= _FEWEST and not self.counter.begun and self.looking is None
        if free and due and now >= due[0]:
            if model and compiled():
                due.clear()
            elif self.counter.begin(sys._getframe(1)):
                due.pop(0)
                due[:] = [max(one, now + _AGAIN_NS) for one in due]
                self._loader, self._part = loader, part
                self.asked_ns = now + _ASKED_NS
                return
        elif free and model and part == ("before" if loader != NO_LOADER else "after"):
            self._look_at_calls(loader, turn, now)
        waits = [one[0] for one in self._due_ns.values() if one and now < one[0] + _GIVEN_UP_NS]
        waits += [at for one, at in self._calls_ns.items() if self._calls[one].left and now < at + _GIVEN_UP_NS]
        self.asked_ns = min([now + _ASKED_NS, *waits])

    def stop(self) -> None:
        """Ends it. Called each time that another part of an iteration begins, in any thread."""
        if self.counter.begun:
            self._recording.guarded("counting lines", self._end)
        if self.looking is not None and self.looking[2] == get_ident():
            (calls, turn, _), self.looking = self.looking, None
            calls.ends(turn, ())

    def _look_at_calls(self, loader: int, turn: int, now: int) -> None:
        """Looks at the calls from here to the backward of an iteration, if it is time."""
        calls = self._calls.setdefault(loader, RepeatedCalls(self._recording, loader, 0, "iteration"))
        if now < self._calls_ns.setdefault(loader, now + _CALLS_NS) or not calls.left:
            return
        self._calls_ns[loader] = now + _CALLS_NS
        if not compiled() and _only_computes() and calls.begins():
            self.looking = calls, turn, get_ident()

    def in_child(self) -> None:
        """Looks at nothing in a process that was forked meanwhile."""
        self.counter.end()
        if self.looking is not None:
            self.looking = None
            sys.setprofile(None)

    def _end(self) -> None:
        if (found := self.counter.end()) is not None:
            lines = LineRuns(self._loader, "iteration", self._part, found.whole, found.spent_ns, found.lines)
            self._recording.write(lines)


_present: list[weakref.ref[LinesOfLoops]] = []  # the last one. Python keeps what it calls at forks until it ends
_at_forks: list[bool] = []


def _ends_in_child() -> None:
    for one in _present:
        if (lines := one()) is not None:
            lines.in_child()


def _only_computes() -> bool:
    """Whether tensors may be read here: on a CPU alone, and nothing notes or changes the operations of the script."""
    torch: Any = sys.modules["torch"]
    names = "_get_tracing_state", "_len_torch_dispatch_stack"  # internal: where one is missing, nothing is known
    asked = *(getattr(torch._C, one, None) for one in names), getattr(torch.autograd, "_profiler_enabled", None)
    return not torch.cuda.is_initialized() and all(one is not None and not one() for one in asked)


def compiled() -> bool:
    """Whether torch has compiled anything in this process."""
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", None)
    return bool(counters and counters.get("frames"))
