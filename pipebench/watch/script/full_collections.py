"""Times the full garbage collections in a training loop, and notes which lines begin them.

A full collection looks at each object that Python knows of. `gc.collect()` is one; Python begins others by itself. No
other thread can look at the loop meanwhile: the interpreter is not free.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections import Counter
from time import perf_counter_ns

from pipebench.watch.record.patches import Patches
from pipebench.watch.record.trial_lines import FullCollected

_FULL = 2  # the generation of all objects
_MOST = 50  # places


class FullCollections:
    """What full collections took in the main thread, by the loader of the loop. Called through `gc.callbacks`."""

    def __init__(self) -> None:
        self.loader: int | None = None  # of the loop that runs now
        self._began = 0
        self._spent: Counter[int] = Counter()
        self._places: dict[int, Counter[tuple[str, int]]] = {}
        self._thread, self._process = threading.main_thread().ident, os.getpid()

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if info.get("generation") != _FULL or threading.get_ident() != self._thread or os.getpid() != self._process:
            return
        if phase == "start":
            self._began = perf_counter_ns()
            return
        if self.loader is None or not self._began:
            return
        self._spent[self.loader] += perf_counter_ns() - self._began
        self._began = 0
        frame = sys._getframe(1)
        places = self._places.setdefault(self.loader, Counter())
        if len(places) < _MOST:
            places[frame.f_code.co_filename, frame.f_lineno] += 1

    def take(self, loader: int) -> FullCollected:
        """What this loader's loop spent since the last time."""
        places = self._places.pop(loader, Counter[tuple[str, int]]())
        (file, line), most = max(places.items(), key=lambda one: one[1], default=(("", 0), 0))
        return FullCollected(self._spent.pop(loader, 0), places.total(), file, line, most)

    def install(self, patches: Patches) -> None:
        gc.callbacks.append(self)
        patches.on_undo(lambda: gc.callbacks.remove(self))
