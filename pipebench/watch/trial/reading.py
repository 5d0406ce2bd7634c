"""What the workers of a trial read, and how much of that came from storage: the rest was in the page cache.

By Linux's own counts of each process (man 5 proc, /proc/pid/io): bytes of its read calls, and bytes that storage gave.
When a worker has ended, its counts are in those of its parent, beside those of the parent's own threads.
"""

from __future__ import annotations

import contextlib
import os
from multiprocessing import process
from typing import NamedTuple


class Bytes(NamedTuple):
    """Bytes of read calls, pipes and sockets included, and bytes that storage gave, also to memory maps."""

    read: int
    stored: int

    def __sub__(self, other: Bytes) -> Bytes:
        return Bytes(self.read - other.read, self.stored - other.stored)


class Reading:
    """What was read since the last mark. The loop's own pipes are left out, as long as there are workers."""

    def __init__(self) -> None:
        self._own = self._others = Bytes(0, 0)
        self.mark()

    def mark(self) -> None:
        self._own, self._others = _now()

    def since(self) -> Bytes:
        """What was read since the mark, which is set anew. Nothing, where the system does not tell."""
        own, others = self._own, self._others
        self.mark()
        found = self._others - others
        if found.read <= 0:  # nothing has workers
            found = self._own - own
        return found if found.read > 0 and found.stored >= 0 else Bytes(0, 0)


def _now() -> tuple[Bytes, Bytes]:
    """The counts of this process' threads, and those of its children and of threads that have ended."""
    try:
        whole, own = _of("/proc/self/io"), Bytes(0, 0)
        for thread in os.listdir("/proc/self/task"):
            with contextlib.suppress(OSError, ValueError, KeyError):  # it has ended meanwhile
                one = _of(f"/proc/self/task/{thread}/io")
                own = Bytes(own.read + one.read, own.stored + one.stored)
        others = whole - own
        for child in list(process._children):  # type: ignore[attr-defined]
            with contextlib.suppress(OSError, ValueError, KeyError):
                one = _of(f"/proc/{child.pid}/io")
                others = Bytes(others.read + one.read, others.stored + one.stored)
    except (OSError, ValueError, KeyError, AttributeError):
        return Bytes(0, 0), Bytes(0, 0)
    return own, others


def _of(path: str) -> Bytes:
    with open(path) as counts:
        found = dict(line.split(": ") for line in counts)
    return Bytes(int(found["rchar"]), int(found["read_bytes"]))
