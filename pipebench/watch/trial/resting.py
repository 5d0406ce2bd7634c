"""The CPU time of workers that wait for their turn: if they compute, windows of the other loader show nothing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any

MOST_CORES = 0.5  # of all workers of a loader; threads of libraries spin for a moment after their work


class Resting:
    """The workers of an iterator from now on. `now` is a clock in seconds."""

    def __init__(self, iterator: Any, now: Callable[[], float]) -> None:
        self._processes = [one.pid for one in getattr(iterator, "_workers", ()) if one.pid]
        self._now = now
        self._began, self._cpu_s = now(), self._used_s()

    @property
    def compute(self) -> bool:
        """Whether they have used more than `MOST_CORES` cores since then."""
        return self._used_s() - self._cpu_s > MOST_CORES * (self._now() - self._began)

    def _used_s(self) -> float:
        return sum(map(cpu_s, self._processes))


def cpu_s(process: int) -> float:
    """The CPU seconds of all threads of a process, by proc_pid_stat(5); 0 of a process that is gone."""
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{process}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0
