"""Sees other threads of the script that keep the interpreter from the thread of a loop. Called by looks at that loop.

Python lets one thread run at a time. A thread that computes in Python gives way only when another one has waited for
5 ms; what waits, or computes in C as NumPy does, gives way at once. The thread that looks needs the interpreter each
time it wakes, as the loop does. So what it meets at a random moment is what the loop meets.
"""

from __future__ import annotations

import dis
import resource
import sys
import threading
import time
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import NamedTuple

from pipebench.watch.record.kernel_counts import thread_now
from pipebench.watch.record.own_code import line_reached, owner, plain_name
from pipebench.watch.record.patches import is_ours
from pipebench.watch.record.per_code import per_code
from pipebench.watch.record.recording import Recording
from pipebench.watch.record.trial_lines import ThreadLooks, ThreadsBeside
from pipebench.watch.script.loop_place import outwards
from pipebench.watch.script.made import within
from pipebench.watch.script.switching import Switching

_SHORT_NS = 16_000_000  # the sleep before a look: what the loop did in a longer one says little of its end
_WAITED = 2  # waits: the sleep, and then for the interpreter
_LONG = 0.2  # of the interval after which a thread gives way: what merely computes in C keeps the interpreter for less
_EACH_NS = 100_000_000  # between two sums of what all threads used
_BUSY = 0.02  # of a core: other threads are not looked at
_WAITING = ("S", "D")  # states of a thread that neither runs nor lacks a core
_MOST_THREADS, _MOST_PLACES = 64, 100
_NO_MATTER = {*sys.stdlib_module_names, "torch", "pipebench", "generated code"}
_NAMES = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_GLOBAL", "LOAD_NAME")
# What a thread calls to wait by its own will. A line that names one of these is no work.
_WAITS = frozenset({"sleep", "wait", "get", "put", "acquire", "join", "result", "recv", "poll", "select"})


class _Asleep(NamedTuple):
    """When the looking thread went to sleep, how often it had waited until then, and the loop's CPU time."""

    at: int
    due: int
    waits: int
    cpu: int


class _Window(NamedTuple):
    """A short sleep at whose end the loop waits, but not for a core: the share in which it did not run.

    `taken`: another thread had the interpreter then, for longer than a call of something in C takes to begin.
    """

    off: float
    taken: bool


class _Sums(NamedTuple):
    """A moment, the loop's waits for a core until then, and the CPU time of threads, by the kernel's numbers."""

    loader: int
    at: int
    core_wait: int
    used: dict[int, int]


class _Other(NamedTuple):
    """A thread beside the loop: the kernel's number of it, Python's identity, and its name."""

    native: int
    thread: int
    name: str


class _Where(NamedTuple):
    """A thread, and the function of the script in which it was seen."""

    name: str
    file: str
    function: str
    line: int


@dataclass
class _OfLoop:
    """What is not written yet of one loader's loop: see `ThreadsBeside`."""

    wall_ns: int = 0
    cpu_ns: int = 0
    core_wait_ns: int = 0
    windows: int = 0
    off: float = 0.0
    held: float = 0.0
    found: dict[_Where, tuple[int, int]] = field(default_factory=dict)  # looks and CPU time

    def line(self, loader: int) -> ThreadsBeside:
        threads = [ThreadLooks(*where, looks, cpu_ns) for where, (looks, cpu_ns) in list(self.found.items())]
        sums = self.wall_ns, self.cpu_ns, self.core_wait_ns, self.windows, self.off, self.held
        return ThreadsBeside(loader, *sums, threads)


class BusyThreads:
    """Notes what other threads do beside the loop of one thread, on Linux. Without `follow`, nothing.

    `met` is true as soon as a look has met another thread that did not wait.
    """

    def __init__(self, recording: Recording, switching: Switching) -> None:
        self.recording, self.met = recording, False
        self._switching = switching
        self._thread = self._native = 0
        self._asleep: _Asleep | None = None
        self._window: _Window | None = None
        self._last: _Sums | None = None
        self._of: dict[int, _OfLoop] = {}

    def follow(self, thread: int, native: int) -> None:
        """Says which thread has the loop: by Python's identity of it, and the kernel's number."""
        if sys.platform == "linux":
            self._thread, self._native = thread, native

    def sleeps(self, seconds: float) -> None:
        """Called right before the looking thread sleeps for so long."""
        cpu, now, ns = _cpu_ns(self._native), time.perf_counter_ns(), int(seconds * 1e9)
        self._asleep = _Asleep(now, now + ns, own_waits(), cpu) if cpu is not None and ns <= _SHORT_NS else None

    def wakes(self) -> None:
        """Called right after that sleep: tells whether the loop waits, and another thread had the interpreter."""
        before, self._window = self._asleep, None
        waits, cpu, now = own_waits(), _cpu_ns(self._native), time.perf_counter_ns()
        if before is not None and cpu is not None and thread_now(self._native)[0] in _WAITING:
            long = now - before.due >= _LONG * self._switching.plain_s * 1e9
            taken = long and waits - before.waits >= _WAITED
            self._window = _Window(max(0.0, 1 - (cpu - before.cpu) / max(1, now - before.at)), taken)

    def look(self, loader: int | None, frames: Mapping[int, FrameType]) -> None:
        """Counts what the last sleep told, and what threads did since the last look. None: no loop is running.

        `frames` are of all threads.
        """
        self.met = self.met or any(map(_runs, (one for ident, one in frames.items() if ident != self._thread)))
        if loader is None or not self._native:
            self._last = None
            return
        of = self._of.setdefault(loader, _OfLoop())
        frame = frames.get(self._thread)
        if self._window is not None and frame is not None and not is_ours(frame.f_code.co_filename):
            of.windows += 1
            of.off += self._window.off
            if self._window.taken and not (_takes_batches(frame) or _waits_itself(frame)):
                of.held += self._window.off
        if self._last is None or self._last.loader != loader or time.perf_counter_ns() - self._last.at >= _EACH_NS:
            self._sum(of, loader, frames)

    def _sum(self, of: _OfLoop, loader: int, frames: Mapping[int, FrameType]) -> None:
        """Adds what threads used since the last time, if that was in the same loop."""
        threads = _others(self._thread)
        clocks = {one: _cpu_ns(one) for one in (self._native, *(one.native for one in threads))}
        used = {native: cpu for native, cpu in clocks.items() if cpu is not None}
        now = _Sums(loader, time.perf_counter_ns(), thread_now(self._native)[1], used)
        before, self._last = self._last, now
        if before is None or before.loader != loader:
            return
        wall = now.at - before.at
        spent = {native: cpu - before.used[native] for native, cpu in used.items() if native in before.used}
        of.wall_ns += wall
        of.cpu_ns += spent.get(self._native, 0)
        of.core_wait_ns += now.core_wait - before.core_wait
        for one in threads:
            cpu = spent.get(one.native, 0)
            if cpu >= _BUSY * wall and (where := _where(one.name, frames.get(one.thread))) is not None:
                self._add(of, where, cpu)

    def _add(self, of: _OfLoop, where: _Where, cpu_ns: int) -> None:
        if where in of.found or len(of.found) < _MOST_PLACES:
            looks, before = of.found.get(where, (0, 0))
            of.found[where] = looks + 1, before + cpu_ns

    def write(self) -> None:
        """Writes what was seen since the last time."""
        found, self._of = self._of, {}
        for loader, of in found.items():
            if of.wall_ns:
                self.recording.write(of.line(loader))


def _cpu_ns(native: int) -> int | None:
    """The CPU time of a thread, by the kernel's number of it; None if there is no such thread.

    The number of the clock is as clock_getcpuclockid(3) makes it. `time.pthread_getcpuclockid` would crash the process
    if the thread has ended.
    """
    try:
        return time.clock_gettime_ns((~native << 3) | 6) if native else None
    except OSError:  # the thread has ended
        return None


def own_waits() -> int:
    """How often this thread has waited so far, for whatever but a core: each wait for the interpreter counts."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


def _others(loop: int) -> list[_Other]:
    """The threads that `threading` knows, without the loop's. The looking thread is none of them."""
    known = [one for one in threading.enumerate()[:_MOST_THREADS] if one.ident != loop]
    return [_Other(one.native_id, one.ident, one.name) for one in known if one.native_id and one.ident]


def _where(name: str, frame: FrameType | None) -> _Where | None:
    """The innermost function of the script's own in a stack, or else of a library. None: the thread is no matter here.

    That is one of torch, of Python or of ours, and one that iterates a DataLoader, which is told elsewhere.
    """
    own, others = list[_Where](), list[_Where]()
    if _takes_batches(frame):
        return None
    for one in outwards(frame):
        file = one.f_code.co_filename
        whose = owner(file)
        if whose not in _NO_MATTER:
            (others if whose else own).append(_Where(name, file, plain_name(one.f_code.co_qualname), line_reached(one)))
    return next(iter(own or others), None)


def _takes_batches(frame: FrameType | None) -> bool:
    """Whether a thread is inside of torch's loaders, or of what stands around them."""
    files = (one.f_code.co_filename for one in outwards(frame))
    return any(within(file) and not is_ours(file) for file in files)


def _runs(frame: FrameType) -> bool:
    """Whether a thread is one of the script, and does not wait by its own will.

    The thread that sends the indices of batches to a worker is none: it belongs to the worker's queue.
    """
    file = frame.f_code.co_filename
    return not (is_ours(file) or owner(file) == "multiprocessing" or _waits_itself(frame))


def _waits_itself(frame: FrameType) -> bool:
    """Whether a thread waits by its own will: in Python's library, or in a line that calls what waits."""
    if owner(frame.f_code.co_filename) in ("threading", "queue"):
        return True
    return frame.f_lineno in _waiting_lines(frame.f_code)


@per_code(256)
def _waiting_lines(code: CodeType) -> Container[int]:
    """The lines of a function that name what waits."""
    named = (one for one in dis.get_instructions(code) if one.opname.startswith(_NAMES) and one.argval in _WAITS)
    return {one.positions.lineno for one in named if one.positions is not None and one.positions.lineno is not None}
