"""Reads from outside what the processes of a run hold, so that the processes themselves spend no time on it.

A look takes the kernel longer if a process has more memory mapped. So looks are rare: at most 0.5 % of the time.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter

import psutil

from pipebench.host.limits import free_memory, oom_kills
from pipebench.host.machine import Load, read_load_of_tree
from pipebench.watch.launch.file_waits import FileWaits
from pipebench.watch.launch.over_time import OverTime
from pipebench.watch.record import record_file
from pipebench.watch.record.recording import told

_SHARED = Path("/dev/shm")
_SHORTEST_S = 0.25
_OF_ITS_TIME = 200
_OF_THE_RUN = 20
_MOST_PROCESSES = 4096


@dataclass
class Held:
    """The highest values seen for one process. None: not seen, not given by the system, or (a limit) unlimited.

    `over_time` has what changes from look to look. `cores` are those on which the process may run, as last seen.
    """

    pss_bytes: int | None = None
    rss_bytes: int | None = None
    descriptors: int | None = None
    descriptor_limit: int | None = None
    threads: int | None = None
    cores: frozenset[int] = frozenset()
    over_time: OverTime = field(default_factory=OverTime, compare=False)


@dataclass
class Footprint:
    """The highest values for each process and for all together, and how full /dev/shm was at most.

    `pss_bytes` is the highest sum over the processes that existed at the same time. `load` says who used the machine's
    cores while the script ran (None: not known). `machine_cores` counts all cores, whether the script may use them or
    not. `free_bytes` is the memory that was free at the last look.
    `memory_kills` is how many processes the kernel killed meanwhile because memory ran out (None: it does not say).
    """

    processes: dict[int, Held] = field(default_factory=dict)
    pss_bytes: int | None = None
    shared_bytes: int | None = None
    shared_size_bytes: int | None = None
    shared_before_bytes: int | None = None
    load: Load | None = None
    machine_cores: int | None = None
    free_bytes: int | None = None
    fault: str | None = None
    memory_kills: int | None = None


class Looker:
    """Looks at every process that has a record file in `folder`, until the process is gone."""

    def __init__(
        self, folder: Path, process: Callable[[int], psutil.Process] = psutil.Process, shared: Path = _SHARED
    ) -> None:
        self.found = Footprint(machine_cores=os.cpu_count())
        self._folder, self._process, self._shared = folder, process, shared
        self._gone: set[str] = set()
        self._files = FileWaits()
        self._look_at_shared()
        self.found.shared_before_bytes = self.found.shared_bytes
        self._load = read_load_of_tree()
        self._kills = oom_kills()

    def failed(self, error: Exception) -> None:
        self.found.fault = told(error)

    def note_load(self) -> None:
        """Notes who used the cores so far. Processes that still run count with the children that they waited for."""
        now = read_load_of_tree()
        for pid in self.pids():
            with contextlib.suppress(psutil.Error):
                now = replace(now, own_s=now.own_s + sum(self._process(pid).cpu_times()[:4]))
        self.found.load = now - self._load

    def count_kills(self) -> None:
        """Asks the kernel how many processes it killed since the begin because memory ran out."""
        now = oom_kills()
        self.found.memory_kills = None if now is None or self._kills is None else now - self._kills

    def look(self) -> None:
        total = 0
        for name in os.listdir(self._folder):
            if name not in self._gone and name.endswith(record_file.SUFFIX):
                total += self._look_at(name)
        if total:
            self.found.pss_bytes = max(self.found.pss_bytes or 0, total)
            self.found.free_bytes = free_memory()
        self._look_at_shared()

    def glance(self) -> None:
        """Notes what changes from look to look. It costs the kernel little, so it can be done more often."""
        for pid in self.pids():
            with contextlib.suppress(psutil.Error):
                process, held = self._process(pid), self.found.processes.get(pid)
                if held is None and len(self.found.processes) < _MOST_PROCESSES:
                    held = self.found.processes.setdefault(pid, Held())
                if held is not None:
                    held.over_time.note(perf_counter(), process, partial(self._files.at, pid))

    def pids(self) -> Iterator[int]:
        """The processes that have a record file and were not seen to be gone."""
        for name in os.listdir(self._folder):
            if name not in self._gone and name.endswith(record_file.SUFFIX):
                yield int(name.partition("-")[0])

    def _look_at(self, name: str) -> int:
        """Looks at one process. Returns its proportional memory (PSS) in bytes, 0 if it is gone or over the limit."""
        pid = int(name.partition("-")[0])
        try:
            process = self._process(pid)
            memory = process.memory_full_info()
        except psutil.Error:
            self._gone.add(name)
            return 0
        if pid not in self.found.processes and len(self.found.processes) >= _MOST_PROCESSES:
            return 0
        held = self.found.processes.setdefault(pid, Held())
        held.pss_bytes = max(held.pss_bytes or 0, memory.pss)
        held.rss_bytes = max(held.rss_bytes or 0, memory.rss)
        with contextlib.suppress(psutil.Error):
            held.descriptors = max(held.descriptors or 0, process.num_fds())
            held.threads = max(held.threads or 0, process.num_threads())
            held.cores = frozenset(process.cpu_affinity() or ())
            limit, _ = process.rlimit(psutil.RLIMIT_NOFILE)
            held.descriptor_limit = None if limit == psutil.RLIM_INFINITY else limit
        return int(memory.pss)

    def _look_at_shared(self) -> None:
        with contextlib.suppress(OSError):
            found = os.statvfs(self._shared)
            used = (found.f_blocks - found.f_bfree) * found.f_frsize
            self.found.shared_bytes = max(self.found.shared_bytes or 0, used)
            self.found.shared_size_bytes = found.f_blocks * found.f_frsize


def pause(cost_s: float, age_s: float) -> float:
    """Seconds until the next look: more if one look is expensive, and more as the run gets longer."""
    return max(_SHORTEST_S, _OF_ITS_TIME * cost_s, min(10.0, age_s / _OF_THE_RUN))


def looked_at(look: Callable[[], None], failed: Callable[[Exception], None]) -> AbstractContextManager[None]:
    """Calls `look` again and again while the block runs, with pauses that grow with its cost and with the run."""
    began = perf_counter()

    def once() -> float:
        now = perf_counter()
        look()
        return pause(perf_counter() - now, now - began)

    return again_and_again(once, _SHORTEST_S, failed, "pipebench footprint")


@contextlib.contextmanager
def again_and_again(
    once: Callable[[], float], first_wait_s: float, failed: Callable[[Exception], None], name: str
) -> Iterator[None]:
    """Calls `once` from a thread of this process while the block runs. It returns the seconds until the next call.

    An error ends only these calls; `failed` receives it.
    """
    over = threading.Event()

    def run() -> None:
        wait_s = first_wait_s
        try:
            while not over.wait(wait_s):
                wait_s = once()
        except Exception as error:
            failed(error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(1.0)
