"""What the Linux kernel counts about this process and this thread. 0 where it does not say."""

from __future__ import annotations

import functools
import os
import resource
import threading
import time
from typing import Any

_MOST = 512  # bytes
_TASKS = "/proc/self/task"
_SELDOM_NS, _TIMES_AS_LONG = 200_000_000, 500  # so looks take 0.2 % of the time at most
_THIS_THREAD = "/proc/thread-self/schedstat"
_OF_THREAD = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)


def core_wait_ns(thread: int | None = None) -> int:
    """Nanoseconds since its start in which a thread was ready to run, but had no core. None: this thread.

    `thread` is the kernel's number of a thread of this process. The figure is the second one of schedstat
    (Documentation/scheduler/sched-stats.rst). A quota of the cgroup counts too.
    """
    fields = _read(_THIS_THREAD if thread is None else f"/proc/self/task/{thread}/schedstat").split()
    return int(fields[1]) if len(fields) > 1 else 0


class CoreWait:
    """`core_wait_ns` of the present thread, which can have grown only if the thread has left its core since.

    So it is read again only then: in a loop of short iterations, to open the file takes as long as many calls of ours.
    """

    def __init__(self) -> None:
        self._seen: tuple[int, ...] = ()
        self._ns = 0

    def now(self) -> int:
        used = resource.getrusage(_OF_THREAD)
        seen = threading.get_ident(), used.ru_nvcsw, used.ru_nivcsw
        if seen != self._seen:
            self._seen, self._ns = seen, core_wait_ns()
        return self._ns


class HelperWaits:
    """The longest `core_wait_ns` of this process's native threads, which compute parts of its operations.

    Python's own threads are none of them. A look takes the longer, the more threads there are, so it is taken seldom:
    between two, `ns` is that of the last one.
    """

    def __init__(self) -> None:
        self.ns = 0
        self._next = 0

    def look(self, now: int) -> int:
        """The figure at `now`, or that of the last look where it is too early for another one."""
        if now >= self._next:
            self.ns = max(self.ns, _longest_of_helpers())
            took = time.perf_counter_ns() - now
            self._next = now + max(_SELDOM_NS, _TIMES_AS_LONG * took)
        return self.ns


OURS: set[int] = set()
"""Native ids of threads of ours that `threading` does not know."""


def _longest_of_helpers() -> int:
    own = {str(one.native_id) for one in threading.enumerate()} | {str(one) for one in list(OURS)}
    try:
        tasks = os.listdir(_TASKS)
    except OSError:
        return 0
    return max((core_wait_ns(int(one)) for one in tasks if one not in own), default=0)


def thread_now(thread: int) -> tuple[str, int]:
    """The state of a thread of this process (R: it runs or is ready to, see proc_pid_stat(5)), and its `core_wait_ns`.

    Meanwhile no other thread gets the interpreter from this one: so a thread that waits for it is seen to wait.
    """
    state = _read_at_once(f"/proc/self/task/{thread}/stat").rpartition(b")")[2].split(maxsplit=1)
    counts = _read_at_once(f"/proc/self/task/{thread}/schedstat").split()
    return state[0].decode() if state else "", int(counts[1]) if len(counts) > 1 else 0


def children_cpu_ns() -> int:
    """Nanoseconds of CPU time of programs that this process started and waited for, as an ffmpeg: see getrusage(2)."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return int((used.ru_utime + used.ru_stime) * 1e9)


def read_bytes() -> int:
    """Bytes that this process has read by system calls since its start: files, pipes, sockets, but no memory maps."""
    first = _read("/proc/self/io").split(maxsplit=2)
    return int(first[1]) if len(first) > 1 else 0


def _read_at_once(path: str) -> bytes:
    """As `_read`, but this thread keeps the interpreter."""
    ctypes, libc = _c()
    text = ctypes.create_string_buffer(_MOST)
    file = libc.open(path.encode(), os.O_RDONLY | os.O_CLOEXEC)
    if file < 0:
        return b""
    count = libc.read(file, text, _MOST)
    libc.close(file)
    return bytes(text.raw[: max(0, count)])


@functools.cache
def _c() -> tuple[Any, Any]:
    import ctypes  # here: processes without looks do not need it

    return ctypes, ctypes.PyDLL(None)


def _read(path: str) -> bytes:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(file, _MOST)
        finally:
            os.close(file)
    except OSError:
        return b""
