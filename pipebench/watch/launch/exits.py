"""Notes when processes that are not our children exit, and how, without looking again and again."""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter_ns
from typing import NamedTuple

from pipebench.watch.launch.footprint import again_and_again

_PAUSE_MS = 100  # until new processes are waited for, too, and until the end of all is noticed
_EXIT_CODE = -1  # the last field of /proc/PID/stat: proc(5)


class Exit(NamedTuple):
    """When a process exited, in nanoseconds of the monotonic clock, and how.

    `status` is -n if signal n ended it, and else its exit status. None: not known, because its parent had asked for it
    at once, or because it is 0, which Linux also gives to those who may not know.
    """

    at: int
    status: int | None = None


class Exits:
    """Waits for processes by their descriptors (pidfd, Linux 5.3). Elsewhere nothing is noted."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self.found: dict[int, Exit] = {}
        self._proc = proc
        self._open: dict[int, int] = {}
        self._poll = select.poll()

    def follow(self, pid: int) -> None:
        """Waits for a process from now on. One that has exited and is gone is not noted."""
        with contextlib.suppress(OSError, AttributeError):
            descriptor = os.pidfd_open(pid)
            self._open[descriptor] = pid
            self._poll.register(descriptor, select.POLLIN)

    def wait(self, most_ms: int = _PAUSE_MS) -> None:
        """Notes the processes that exit meanwhile."""
        for descriptor, _ in self._poll.poll(most_ms):
            pid = self._open.pop(descriptor)
            self.found[pid] = Exit(perf_counter_ns(), self._status(pid))
            self._poll.unregister(descriptor)
            os.close(descriptor)

    def close(self) -> None:
        """Notes what has exited by now, and waits for nothing any more."""
        self.wait(0)
        for descriptor in self._open:
            self._poll.unregister(descriptor)
            os.close(descriptor)
        self._open.clear()

    def _status(self, pid: int) -> int | None:
        """How a process has ended, if it is still there for its parent to ask."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = (self._proc / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
            if fields[0] in (b"Z", b"X"):
                return os.waitstatus_to_exitcode(int(fields[_EXIT_CODE])) or None
        return None


@contextlib.contextmanager
def exits_noted(exits: Exits, failed: Callable[[Exception], None]) -> Iterator[None]:
    """Waits in a thread of this process while the block runs. An error ends only the waiting; `failed` receives it."""

    def once() -> float:
        exits.wait()
        return 0.0

    try:
        with again_and_again(once, 0.0, failed, "pipebench exits"):
            yield
    finally:
        exits.close()
