"""Measures a block, and how much of its time it waited for a processor although it was ready to run.

On a busy host such waiting is most of the noise: a reading that is longer than a time slice is nearly always
interrupted. Linux counts the waiting of each thread in nanoseconds (`run_delay`, the second number of
/proc/thread-self/schedstat; see sched-stats.rst of its documentation). It comes from the load of the host, if the block
runs in one thread. A block that starts threads or processes also waits for these. Then its waiting is not known here,
and all of its time counts.

This file imports nothing of pipebench: it is read by its path, and runs inside any commit.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable

COUNTER = "/proc/thread-self/schedstat"
OTHERS = 0.01  # CPU time of others that shows that they took part: this share of the block
CLOCKS_S = 20e-6  # but not less than the clocks themselves are apart


class ReadyClock:
    """Measures a block by `timer`. Then `waited_s` says how long it waited, and is None where that is not known.

    It is not known with another timer than `perf_counter`, on a kernel that does not count it, and for a block that was
    not alone: other threads of this process ran, or there was a child process.
    """

    timer: Callable[[], float]

    def __init__(self) -> None:
        self.usual = self.timer = time.perf_counter  # a test may replace that of the module, and stop the time
        self.waited_s: float | None = None
        self._counter = _Counter()

    def elapsed(self, block: Callable[[], object]) -> float:
        """Seconds of the block, its waiting included.

        The counter is read between the two times. So an interruption beside the block can make a reading too long, but
        never too short. A reading that is too short would be taken for the fastest.
        """
        others, read = _others_s(), self._counter.read_s
        begin = self.timer()
        before = read()
        block()
        after = read()
        elapsed = self.timer() - begin
        self.waited_s = None
        if before is not None and after is not None and self.timer is self.usual:
            waited = max(0.0, after - before)
            if waited < elapsed and _alone(others, _others_s(), elapsed):
                self.waited_s = waited
        return elapsed


class _Counter:
    """The waiting of a thread, read from a file that stays open (2 µs). The first reading decides which thread."""

    def __init__(self) -> None:
        self._file: int | None = None
        self._counts = True

    def read_s(self) -> float | None:
        if self._file is None and self._counts:
            try:
                self._file = os.open(COUNTER, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                self._counts = False
        return int(os.pread(self._file, 80, 0).split()[1]) * 1e-9 if self._file is not None else None


def _alone(before: tuple[float, float] | None, after: tuple[float, float] | None, elapsed_s: float) -> bool:
    if before is None or after is None:
        return False
    return after[0] - before[0] <= max(CLOCKS_S, OTHERS * elapsed_s) and after[1] == before[1]


def _others_s() -> tuple[float, float] | None:
    """CPU seconds of the other threads and of the former children; None while there is a child."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)  # looks, and takes nothing from the one that waits
    except ChildProcessError:
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() - time.thread_time(), ended.ru_utime + ended.ru_stime
    return None
