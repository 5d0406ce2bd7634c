"""Times the garbage collections that a training loop asks for, and notes the lines that do.

A full collection looks at each object that Python knows of. No other thread can look at the loop meanwhile: the
interpreter is not free. Those that Python begins by itself are not timed: `gc.callbacks` would lose what a signal
handler raises during one.
"""

from __future__ import annotations

import functools
import gc
import os
import sys
import threading
from collections import Counter
from time import perf_counter_ns
from types import FrameType
from typing import Any

from pipebench.watch.record.patches import Patches, unseen
from pipebench.watch.record.trial_lines import FullCollected

_MOST = 50  # places


class FullCollections:
    """What calls of `gc.collect` took in the main thread, by the loader of the loop."""

    def __init__(self) -> None:
        self.loader: int | None = None  # of the loop that runs now
        self._spent: Counter[int] = Counter()
        self._places: dict[int, Counter[tuple[str, int]]] = {}
        self._thread, self._process = threading.main_thread().ident, os.getpid()

    def _add(self, spent: int, frame: FrameType) -> None:
        if self.loader is None or threading.get_ident() != self._thread or os.getpid() != self._process:
            return
        self._spent[self.loader] += spent
        places = self._places.setdefault(self.loader, Counter())
        if len(places) < _MOST:
            places[frame.f_code.co_filename, frame.f_lineno] += 1

    def take(self, loader: int) -> FullCollected:
        """What this loader's loop spent since the last time."""
        places = self._places.pop(loader, Counter[tuple[str, int]]())
        (file, line), most = max(places.items(), key=lambda one: one[1], default=(("", 0), 0))
        return FullCollected(self._spent.pop(loader, 0), places.total(), file, line, most)

    def install(self, patches: Patches) -> None:
        plain = gc.collect

        @unseen
        @functools.wraps(plain)
        def collect(*args: Any, **kwargs: Any) -> int:
            began = perf_counter_ns()
            try:
                return plain(*args, **kwargs)
            finally:
                self._add(perf_counter_ns() - began, sys._getframe(1))

        patches.replace(gc, "collect", collect)
