"""Notices gaps: that this process was stopped, or the machine suspended, while something was timed.

SIGCONT ends every stop, also one by SIGSTOP, of which a process is told nothing else (signal(7)). CLOCK_BOOTTIME goes
on while a machine is suspended, and CLOCK_MONOTONIC, by which everything is timed, stands still (clock_gettime(2)).
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

GAP = "gap"  # the code of a warning
TAKEN_ANEW = 3  # how often at most something is timed again because there was a gap in it
LEAST_S = 0.05  # two clocks are read one after the other, so their difference is not exact
_TRIES = 8
_CLOSE_S = 1e-4
Mark = tuple[int, float]
Taken = TypeVar("Taken")


def suspended_s(read: Callable[[int], float] = time.clock_gettime) -> float:
    """How long this machine has been suspended since its start, in seconds. 0 if the system does not say.

    Read again if this process lost its core between the two clocks.
    """
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    if boot is None:
        return 0.0
    found = 0.0
    for _ in range(_TRIES):
        before, whole, after = read(time.CLOCK_MONOTONIC), read(boot), read(time.CLOCK_MONOTONIC)
        found = whole - (before + after) / 2
        if after - before < _CLOSE_S:
            break
    return found


class StoppedAgain(Exception):
    """There was a gap in every reading."""


class Gaps:
    """A `with` block in which gaps of this process are noticed. Outside of it, only suspensions are.

    It handles SIGCONT where nobody else does, in the main thread only. This costs nothing until the signal comes.
    """

    def __init__(self) -> None:
        self.continued = 0
        self._before: Any = None

    def __enter__(self) -> Gaps:
        here = threading.current_thread() is threading.main_thread()
        if here and signal.getsignal(signal.SIGCONT) in (signal.SIG_DFL, signal.SIG_IGN):
            self._before = signal.signal(signal.SIGCONT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGCONT, self._before)
            self._before = None

    def _note(self, number: int, frame: object) -> None:
        self.continued += 1

    def mark(self) -> Mark:
        """This moment, for `since`."""
        return self.continued, suspended_s()

    def since(self, mark: Mark) -> bool:
        """Whether there was a gap since then."""
        return self.continued != mark[0] or suspended_s() - mark[1] > LEAST_S


def without_gap(take: Callable[[], Taken], gaps: Gaps) -> tuple[Taken, bool]:
    """What `take` gives when there is no gap in it, and whether it was called again because there was one.

    Raises `StoppedAgain` if there is a gap every time.
    """
    for tried in range(1 + TAKEN_ANEW):
        mark = gaps.mark()
        found = take()
        if not gaps.since(mark):
            return found, bool(tried)
    raise StoppedAgain("its process was stopped in every reading")
