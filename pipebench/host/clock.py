"""Clocks that measure how long a block takes, on the host or on the device, and how much CPU time processes used."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol


class Clock(Protocol):
    """Runs a block once and returns how many seconds it took. The tests use a seeded fake clock."""

    def elapsed(self, block: Callable[[], object]) -> float: ...


class WallClock:
    """Measures host time by `perf_counter_ns`. The pair of calls costs about 0.2 µs.

    It is that of the import: the code that is measured may have stopped the time, as tests with freezegun do.
    """

    _now_ns = staticmethod(time.perf_counter_ns)

    def elapsed(self, block: Callable[[], object]) -> float:
        begin = self._now_ns()
        block()
        return (self._now_ns() - begin) * 1e-9


def cpu_s(pids: Iterable[int]) -> float:
    """The CPU seconds of this process and of `pids` since they began, all their threads together.

    The clock of another process has the number that clock_getcpuclockid(3) of glibc makes of its id. It counts
    nanoseconds, where /proc counts ticks of 10 ms. A process that has ended counts as 0.
    """
    total = time.process_time()
    for pid in pids:
        with contextlib.suppress(OSError):
            total += time.clock_gettime((~pid << 3) | 2)
    return total


class DeviceClock:
    """Measures device time between two events on the current CUDA stream. It waits until both are complete.

    Work that the block puts on another stream counts only if the current stream waits for it.
    """

    def __init__(self) -> None:
        import torch

        self._cuda: Any = torch.cuda

    def elapsed(self, block: Callable[[], object]) -> float:
        begin, end = self._cuda.Event(enable_timing=True), self._cuda.Event(enable_timing=True)
        begin.record()
        block()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) * 1e-3
