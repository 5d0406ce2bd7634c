"""Measures exclusive time: a thread is in exactly one stage at a time. Each change of stage reads the clock once."""

from __future__ import annotations

import contextlib
import functools
import itertools
import threading
import types
import weakref
from collections.abc import Callable, Iterable
from time import perf_counter_ns
from typing import Any

from pipebench.watch.record.lines import NewStage, StageName
from pipebench.watch.record.own_code import users_class, users_function
from pipebench.watch.record.patches import unseen
from pipebench.watch.record.reads import Reads
from pipebench.watch.record.worker_lines import FieldSums, Hidden, Holds, Shrunk
from pipebench.watch.record.wrapping import wrapped_function

STAGES = 256
REST = 0
_LOGGED = 8192
_APART = 4  # objects of one class that have rows of their own; more of them share one
FUNCTIONS = (
    types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.MethodDescriptorType,
    types.WrapperDescriptorType, types.MethodWrapperType, functools.partial,
)  # fmt: skip


class StageTimer:
    """Measures where one thread's time goes.

    `sums[stage]` is the exclusive time of a stage in nanoseconds: the stages inside it are not included. `whole[stage]`
    includes them; it is of functions that a dataset calls (`stages.called`) only. `log` holds the changes of stage of
    the current batch (time, stage, time, stage, ...), because some batches are recorded in full. `file` is the last
    file that a decoder read. `busy` is true while a batch is fetched. `batched` counts the samples of a dataset that
    makes batches itself (None: the dataset gives samples). `hidden` counts the errors that a handler hid. `left` are
    stages that are timed no longer, each with the stage around it, which has their time from then on. `gave` counts the
    items that each stage of a chain of iterators gave to the next one. `fields` are those that a decoder there makes of
    a sample, by their names. `jpeg` is the last image that OpenCV read from one, and `shrunk` counts these. `reads` are
    those of libraries for remote files. `helpers` are the timers of threads that work for this one, by their numbers:
    see `stages.helpers`. `splits`: stages are entered now, see `worker.split`.

    `perf_counter_ns` is the only clock here. It needs no system call. A thread's CPU clock needs one, and there the
    kernel ends a time slice that is used up: what another process then computes would be in our rows.
    """

    __slots__ = (
        "batched", "busy", "current", "fields", "file", "gave", "helpers", "hidden", "jpeg", "last", "left", "log",
        "reads", "shrunk", "splits", "sums", "whole",
    )  # fmt: skip

    def __init__(self) -> None:
        self.sums = [0] * STAGES
        self.whole = [0] * STAGES
        self.log: list[int] = []
        self.current = REST
        self.last = perf_counter_ns()
        self.file: object = None
        self.busy = False
        self.splits = True
        self.batched: int | None = None
        self.hidden = Hidden()
        self.left: dict[int, int] = {}
        self.gave: dict[int, int] = {}
        self.fields: dict[str, FieldSums] = {}
        self.jpeg: weakref.ref[Any] | None = None
        self.shrunk = Shrunk()
        self.reads = Reads()
        self.helpers: dict[int, StageTimer] = {}

    def switch(self, stage: int) -> int:
        """Enters `stage` and returns the stage before it."""
        if not self.splits:
            return self.current
        now = perf_counter_ns()
        before = self.current
        self.sums[before] += now - self.last
        self.current = stage
        self.last = now
        if len(self.log) < _LOGGED:
            self.log.append(now)
            self.log.append(stage)
        return before

    def so_far(self) -> list[int]:
        """The sums, with the time of the present stage up to now. Another thread may ask."""
        sums, current, last = self.sums.copy(), self.current, self.last
        sums[current] += max(0, perf_counter_ns() - last)
        return sums

    def begin(self) -> int:
        self.log.clear()
        self.current = REST
        self.busy = True
        self.last = now = perf_counter_ns()
        return now

    def end(self) -> None:
        self.switch(REST)
        self.busy = False


class _Local(threading.local):
    """The timer of this thread while it fetches a batch, else None. With None, our wrappers only call the original."""

    timer: StageTimer | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """A wrapper whose code is pickled, as cloudpickle and dill do, is a copy that times nothing."""
        return types.SimpleNamespace, (), {"timer": None}


local = _Local()


class OnlyHere(types.SimpleNamespace):
    """Functions of ours that a wrapper needs while a thread fetches a batch. A pickle of the wrapper has none."""

    def __reduce__(self) -> tuple[Any, ...]:
        return types.SimpleNamespace, ()


def innermost(function: Any) -> Any:
    """What is called in the end, without the partials around it."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def name_of(function: Any) -> str:
    """The name of a transform: a function's own name, or the class of any other callable object."""
    inner = innermost(function)
    name = getattr(inner, "__name__", None) if isinstance(inner, (*FUNCTIONS, type)) else None
    return str(name or type(inner).__name__)


class Stages:
    """The stages of one process. Each has a small number, a kind and a name.

    There is room for 255. All later stages share one stage called "further stages", so memory is bounded.
    """

    def __init__(self) -> None:
        self.known: dict[StageName, int] = {StageName("getitem", "fetch"): REST}
        self.new: list[NewStage] = []
        self._numbers = itertools.count(REST + 1)  # several threads may ask at the same time
        self.all_again()
        self._of: dict[Any, int] = {}
        self._apart: dict[int, tuple[weakref.ref[Any], int]] = {}

    def number(self, kind: str, name: str, includes_read: bool = False, holds: Holds = None, own: bool = False) -> int:
        key = StageName(kind, name, includes_read, holds, own)
        found = self.known.get(key)
        if found is None:
            if len(self.known) >= STAGES - 1 and name != "further stages":
                return self.number("getitem", "further stages")
            found = next(self._numbers)
            if found >= STAGES:
                return self.known.get(StageName("getitem", "further stages"), REST)
            self._kinds[found] = kind
            self.known[key] = found
            self.new.append(NewStage(found, key))
        return found

    def kind(self, number: int) -> str:
        return self._kinds[number]

    def of_transform(self, transform: Any) -> int:
        """The stage of one entry of a Compose. A function gives its own name to the stage, an object its class."""
        if self._apart and (own := self.of_object(transform)) is not None:
            return own
        kind = type(transform)
        found = self._of.get(transform.__code__ if kind is types.FunctionType else kind)
        if found is None:
            if isinstance(transform, (*FUNCTIONS, type)):
                return self._of_function(transform)
            found = self._of[kind] = self.of_kind(kind)
        return found

    def of_kind(self, kind: type) -> int:
        """The stage of the objects of a class."""
        return self.number("transform", kind.__name__, own=users_class(kind))

    def _of_function(self, function: Any) -> int:
        inner = innermost(function)
        key = getattr(inner, "__code__", None) or getattr(inner, "__qualname__", "") or type(inner)
        found = self._of.get(key)
        if found is None:
            found = self._of[key] = self.number("transform", name_of(inner), own=users_function(inner))
        return found

    def of_object(self, transform: Any) -> int | None:
        """The stage that is of this object because there are several of its class; None if it has none."""
        found = self._apart.get(id(transform))
        return found[1] if found is not None and found[0]() is transform else None

    def of_class(self, kind: type) -> Callable[[Any], int]:
        """Gives the stage of an object whose class has its `__call__` from `kind`. It is called for every sample.

        Where a class of the user's own, or another one of the library, calls what it has inherited from a library, the
        row is that of the object's class.
        """
        apart, number = self._apart, self.of_kind(kind)
        inherited: weakref.WeakKeyDictionary[type, int] = weakref.WeakKeyDictionary()
        ends_here = users_class(kind)

        def of_one(transform: Any) -> int:
            if apart:
                found = apart.get(id(transform))
                if found is not None and found[0]() is transform:
                    return found[1]
            of = type(transform)
            if ends_here or of is kind:
                return number
            own = inherited.get(of)
            if own is None:
                own = inherited[of] = self.of_kind(of)
            return own

        return of_one

    def tell_apart(self, transforms: Iterable[Any]) -> None:
        """Gives stages to objects of one class: "Resize (1 of 2)", or "Resize (9 objects)" if there are many.

        An object that wraps a function of the user's, as fastai's `Transform` does, has the name of the function.
        """
        by_class: dict[type, dict[int, Any]] = {}
        for one in transforms:
            if isinstance(one, (*FUNCTIONS, type)):
                continue
            if (within := wrapped_function(one)) is not None and not users_class(type(one)):
                self._row_of(one, self.number("transform", within.name, own=within.own))
            else:
                by_class.setdefault(type(one), {})[id(one)] = one
        for kind, objects in by_class.items():
            for nth, one in enumerate(objects.values() if len(objects) > 1 else (), 1):
                which = f"{nth} of {len(objects)}" if len(objects) <= _APART else f"{len(objects)} objects"
                self._row_of(one, self.number("transform", f"{kind.__name__} ({which})", own=users_class(kind)))

    def _row_of(self, one: Any, number: int) -> None:
        with contextlib.suppress(TypeError):  # an object without weak references
            self._apart[id(one)] = weakref.ref(one), number

    def take_new(self) -> list[NewStage]:
        taken, self.new = self.new, []
        return taken

    def all_again(self) -> None:
        """Marks every stage as new. A forked process writes its own file, and that file needs every name again.

        Another thread may have been in the middle of `number` at the fork, so the kinds are taken from the names.
        """
        self._kinds = {number: key.kind for key, number in self.known.items()}
        self.new = [NewStage(number, key) for key, number in self.known.items()]


stages = Stages()


def timed(function: Callable[..., Any], stage: int) -> Callable[..., Any]:
    """Wraps `function` so that it is a stage of its own while this thread fetches a batch. Otherwise it just runs.

    The wrapper has the globals of the function: TorchScript looks up there what the function's source names.
    """
    ours = local  # so the wrapper needs no globals of this module

    @unseen
    def watched(*args: Any, **kwargs: Any) -> Any:
        timer = ours.timer
        if timer is None or not timer.splits:
            return function(*args, **kwargs)
        before = timer.switch(stage)
        try:
            return function(*args, **kwargs)
        finally:
            timer.switch(before)

    space = getattr(function, "__globals__", None)
    if type(space) is dict:
        watched = types.FunctionType(watched.__code__, space, closure=watched.__closure__)
    return functools.wraps(function)(watched)
