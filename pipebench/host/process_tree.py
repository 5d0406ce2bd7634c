"""The CPU time and the memory of this process with all that it started, as /proc tells."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import time
from collections.abc import Callable, Iterator

import psutil

WINDOW_S = 0.1  # between two looks at whether the tree rests
RESTING = 0.25  # of a core: what servers that wait may use
LONGEST_S = 10.0
_PR_SET_CHILD_SUBREAPER = 36  # see prctl(2)


def adopt_orphans() -> None:
    """Makes this process the parent of what its children leave behind, so that it stays in the tree."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def cpu_s() -> float:
    """Seconds of CPU of this process and of all below it, the ended ones that were waited for included."""
    waited = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = time.process_time() + waited.ru_utime + waited.ru_stime
    for one in _below():
        with contextlib.suppress(psutil.Error):
            total += sum(one.cpu_times()[:4])
    return total


def memory_bytes() -> int | None:
    """Proportional memory (PSS) of the tree; None if the system does not tell."""
    found = []
    for one in (psutil.Process(), *_below()):
        with contextlib.suppress(psutil.Error):
            found.append(int(one.memory_full_info().pss))
    return sum(found) or None


def rest(
    cpu: Callable[[], float] = cpu_s,
    now: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> float:
    """Waits until the tree rests. Returns the time at which its last busy window ended: the time of the call if none.

    What the looks themselves cost this thread is not held against the tree. After `LONGEST_S` it returns anyway.
    """
    began = busy_until = now()
    before = cpu() - time.thread_time()
    while now() - began < LONGEST_S:
        sleep(WINDOW_S)
        spent = cpu() - time.thread_time()
        if spent - before < RESTING * WINDOW_S:
            break
        before, busy_until = spent, now()
    return busy_until


def _below() -> Iterator[psutil.Process]:
    with contextlib.suppress(psutil.Error, OSError):
        yield from psutil.Process(os.getpid()).children(recursive=True)
