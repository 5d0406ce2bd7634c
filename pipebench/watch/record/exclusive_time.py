"""Exclusive time: at each moment a thread is in exactly one stage, and every change of stage reads the clock once."""

from __future__ import annotations

import functools
import threading
import types
from collections.abc import Callable
from time import perf_counter_ns, thread_time_ns
from typing import Any

from pipebench.watch.record.lines import NewStage, StageName
from pipebench.watch.record.patches import unseen

STAGES = 256
REST = 0
_LOGGED = 8192
FUNCTIONS = (
    types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.MethodDescriptorType,
    types.WrapperDescriptorType, types.MethodWrapperType, functools.partial,
)  # fmt: skip


class StageTimer:
    """Where one thread's time goes. `sums[stage]` is the time during which that stage, and nothing inside it, ran.

    `log` holds the changes of stage of the current batch (time, stage, time, stage, ...), for those batches whose
    spans are kept in full; `file` is the last file that a decoder was seen to read. `busy` is true while a batch is
    fetched. `cpu_inside` is the CPU time of those stages inside the current one that measure theirs. `batched` counts
    the samples of a dataset that makes batches itself (None: what it gives are samples).
    """

    __slots__ = ("batched", "busy", "cpu", "cpu_inside", "current", "file", "last", "log", "sums")

    def __init__(self) -> None:
        self.sums = [0] * STAGES
        self.cpu = [0] * STAGES
        self.log: list[int] = []
        self.current = REST
        self.last = perf_counter_ns()
        self.file: object = None
        self.busy = False
        self.cpu_inside = 0
        self.batched: int | None = None

    def switch(self, stage: int) -> int:
        """Enters `stage` and returns the one that was left."""
        now = perf_counter_ns()
        before = self.current
        self.sums[before] += now - self.last
        self.current = stage
        self.last = now
        if len(self.log) < _LOGGED:
            self.log.append(now)
            self.log.append(stage)
        return before

    def begin(self) -> int:
        self.log.clear()
        self.current = REST
        self.busy = True
        self.cpu_inside = 0
        self.last = now = perf_counter_ns()
        return now

    def end(self) -> None:
        self.switch(REST)
        self.busy = False


class _Local(threading.local):
    """The timer of this thread while it fetches a batch, else None: then every wrapper of ours is a plain call."""

    timer: StageTimer | None = None


local = _Local()


def _innermost(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def name_of(function: Any) -> str:
    """What a transform is called: a function by its own name, anything else that can be called by its class."""
    inner = _innermost(function)
    name = getattr(inner, "__name__", None) if isinstance(inner, (*FUNCTIONS, type)) else None
    return str(name or type(inner).__name__)


class Stages:
    """The stages of one process: what they are called and of what kind they are, each with a small number.

    There is room for 255; what comes later is one stage called "further stages", so that memory has a bound.
    """

    def __init__(self) -> None:
        self.known: dict[StageName, int] = {StageName("getitem", "fetch"): REST}
        self.new: list[NewStage] = []
        self.all_again()
        self._of: dict[Any, int] = {}

    def number(self, kind: str, name: str, includes_read: bool = False) -> int:
        key = StageName(kind, name, includes_read)
        found = self.known.get(key)
        if found is None:
            if len(self.known) >= STAGES - 1 and name != "further stages":
                return self.number("getitem", "further stages")
            found = self.known[key] = len(self.known)
            self.new.append(NewStage(found, key))
        return found

    def of_transform(self, transform: Any) -> int:
        """The stage of one entry of a Compose, named by its class or, for a function, by its name."""
        kind = type(transform)
        found = self._of.get(transform.__code__ if kind is types.FunctionType else kind)
        if found is None:
            if isinstance(transform, (*FUNCTIONS, type)):
                return self._of_function(transform)
            found = self._of[kind] = self.number("transform", kind.__name__)
        return found

    def _of_function(self, function: Any) -> int:
        inner = _innermost(function)
        key = getattr(inner, "__code__", None) or getattr(inner, "__qualname__", "") or type(inner)
        found = self._of.get(key)
        if found is None:
            found = self._of[key] = self.number("transform", name_of(inner))
        return found

    def take_new(self) -> list[NewStage]:
        taken, self.new = self.new, []
        return taken

    def all_again(self) -> None:
        """A forked process writes its own file, which needs every name once more."""
        self.new = [NewStage(number, key) for key, number in self.known.items()]


stages = Stages()


def timed(function: Callable[..., Any], stage: int) -> Callable[..., Any]:
    """`function` as a stage of its own while this thread fetches a batch; otherwise it is called as it is."""

    @unseen
    @functools.wraps(function)
    def watched(*args: Any, **kwargs: Any) -> Any:
        timer = local.timer
        if timer is None:
            return function(*args, **kwargs)
        before = timer.switch(stage)
        try:
            return function(*args, **kwargs)
        finally:
            timer.switch(before)

    return watched


def timed_with_cpu(function: Callable[..., Any], stage: int) -> Callable[..., Any]:
    """As `timed`, and with the thread's CPU time: what is missing from it was spent blocked, or not scheduled."""

    @unseen
    @functools.wraps(function)
    def watched(*args: Any, **kwargs: Any) -> Any:
        timer = local.timer
        if timer is None:
            return function(*args, **kwargs)
        before = timer.switch(stage)
        cpu = thread_time_ns()
        try:
            return function(*args, **kwargs)
        finally:
            timer.cpu[stage] += thread_time_ns() - cpu
            timer.switch(before)

    return watched
