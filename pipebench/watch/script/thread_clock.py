"""Reads what one thread of this process has needed a core for, from another thread."""

from __future__ import annotations

import threading
import time
from typing import Any

from pipebench.watch.record.kernel_counts import core_wait_ns, thread_now


class ThreadClock:
    """The clock of the thread that makes it. `native` is the number that the kernel gives that thread.

    `known` is false where the system has no such clock.
    """

    def __init__(self) -> None:
        clock: Any = getattr(time, "pthread_getcpuclockid", None)
        self.native = threading.get_native_id()
        self._clock: int | None = clock(threading.get_ident()) if clock is not None else None
        self.known = self._clock is not None

    def is_ready(self) -> bool:
        """Whether the thread runs, or could: its wait for a core counts once it is over."""
        return thread_now(self.native)[0] == "R"

    def needed_ns(self) -> int:
        """The nanoseconds in which the thread has used a core so far, or waited for one; 0 without a clock.

        Raises `OSError` if the thread has ended.
        """
        return time.clock_gettime_ns(self._clock) + core_wait_ns(self.native) if self._clock is not None else 0
