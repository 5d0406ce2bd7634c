"""What the Linux kernel counts about this process and this thread. 0 where it does not say."""

from __future__ import annotations

import os
import resource

_THIS_THREAD = "/proc/thread-self/schedstat"


def core_wait_ns(thread: int | None = None) -> int:
    """Nanoseconds since its start in which a thread was ready to run, but had no core. None: this thread.

    `thread` is the kernel's number of a thread of this process. The figure is the second one of schedstat
    (Documentation/scheduler/sched-stats.rst). A quota of the cgroup counts too.
    """
    fields = _read(_THIS_THREAD if thread is None else f"/proc/self/task/{thread}/schedstat").split()
    return int(fields[1]) if len(fields) > 1 else 0


def children_cpu_ns() -> int:
    """Nanoseconds of CPU time of programs that this process started and waited for, as an ffmpeg: see getrusage(2)."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return int((used.ru_utime + used.ru_stime) * 1e9)


def read_bytes() -> int:
    """Bytes that this process has read by system calls since its start: files, pipes, sockets, but no memory maps."""
    first = _read("/proc/self/io").split(maxsplit=2)
    return int(first[1]) if len(first) > 1 else 0


def _read(path: str) -> bytes:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(file, 256)
        finally:
            os.close(file)
    except OSError:
        return b""
