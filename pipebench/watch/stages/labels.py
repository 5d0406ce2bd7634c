"""Times the labels that the script sets: `span`, and `record_function`, which torch's profiler loses in workers."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Generator
from typing import Any, Literal, Protocol

from pipebench.watch.record.exclusive_time import local, stages, timed
from pipebench.watch.record.patches import Patches, behind, is_wrapper, unseen

_OF_A_CACHE = ("cache_info", "cache_clear", "cache_parameters")  # `functools.lru_cache`
_OF_A_LOADER = "enumerate(DataLoader)#"  # `_profile_name` of torch's loader iterators
_GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x20, 0x80, 0x200  # `inspect.CO_GENERATOR` and others, without the import


class Spans(Protocol):
    """Times spans outside of a fetch, in the loops of the script's process."""

    def begin(self, name: str) -> bool:
        """Enters a span; false if it is not timed, and then `end` is not called."""

    def end(self) -> None:
        """Leaves the innermost span."""


class _Beyond:
    to: Spans | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """A span whose code is pickled, as cloudpickle and dill do, is a copy that times nothing."""
        return types.SimpleNamespace, (), {"to": None}


beyond_fetch = _Beyond()
"""What times a span that is not inside a fetch; None in workers, and while nothing is watched."""


class span:
    """Names the work inside a `with` block or a decorated function. Without a watch it costs almost nothing.

    >>> with span("tokenise"):
    ...     pass
    """

    __slots__ = ("_before", "_beyond", "_name", "_timer")

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> span:
        timer = self._timer = local.timer
        self._beyond = None
        if timer is not None:
            self._before = timer.switch(stages.number("label", self._name))
        elif (beyond := beyond_fetch.to) is not None and beyond.begin(self._name):
            self._beyond = beyond
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.switch(self._before)
        elif self._beyond is not None:
            self._beyond.end()

    def __call__(self, function: Any) -> Any:
        if _kind(function):
            return _by_steps(function, self(_step))

        @functools.wraps(function)
        def labelled(*args: Any, **kwargs: Any) -> Any:
            with span(self._name):
                return function(*args, **kwargs)

        return labelled


def _kind(function: Any) -> int:
    """Whether a call of the function only begins its work: the flag of what it makes, or 0."""
    flags: int = getattr(getattr(function, "__code__", None), "co_flags", 0)
    return flags & (_GENERATOR | _COROUTINE | _ASYNC_GENERATOR)


def _by_steps(function: Any, step: Any) -> Any:
    """Wraps a function of which each `step` is timed: up to a `yield`, or to an `await` that lets others run.

    An asynchronous generator stays as it is: it has no row.
    """
    kind = _kind(function)
    if kind == _ASYNC_GENERATOR:
        return function

    @unseen
    @functools.wraps(function)
    def stepped(*args: Any, **kwargs: Any) -> Any:
        return _stepped(function(*args, **kwargs), step)

    @unseen
    @functools.wraps(function)
    async def awaited(*args: Any, **kwargs: Any) -> Any:
        return await _Awaited(function(*args, **kwargs).__await__(), step)

    return stepped if kind == _GENERATOR else awaited


class _Awaited:
    def __init__(self, plain: Any, step: Any) -> None:
        self._plain, self._step = plain, step

    def __await__(self) -> Any:
        return _stepped(self._plain, self._step)


@unseen
def _step(act: Any, given: Any) -> Any:
    return act(given)


@unseen
def _stepped(plain: Any, step: Any) -> Generator[Any, Any, Any]:
    act, given = plain.send, None
    while True:
        try:
            found = [step(act, given)]
        except StopIteration as end:
            return end.value
        try:
            act, given = plain.send, (yield found.pop())  # it is not kept here
        except GeneratorExit:
            plain.close()
            raise
        except BaseException as error:
            act, given = plain.throw, error


def watch_record_function(patches: Patches) -> None:
    """Makes a row of each `record_function` block that runs while a batch is fetched.

    torch's own around each batch of a loader is none: of a loader inside a dataset, it would hide the user's functions.
    """
    profiler: Any = sys.modules["torch.autograd.profiler"]
    kind = profiler.record_function
    enter, leave = kind.__enter__, kind.__exit__
    if is_wrapper(enter):
        return

    @unseen
    @functools.wraps(enter)
    def __enter__(self: Any) -> Any:
        timer = local.timer
        if timer is not None and not (name := str(self.name)).startswith(_OF_A_LOADER):
            stage = stages.number("label", name[:200])
            self.__dict__.setdefault("_pipebench_before", []).append((timer, timer.switch(stage)))
        return enter(self)

    @unseen
    @functools.wraps(leave)
    def __exit__(self: Any, *error: Any) -> Any:
        try:
            return leave(self, *error)
        finally:
            entered = self.__dict__.get("_pipebench_before")
            if entered:
                timer, before = entered.pop()
                timer.switch(before)

    patches.replace(kind, "__enter__", __enter__)
    patches.replace(kind, "__exit__", __exit__)


def _anywhere(function: Any, name: str) -> Any:
    """Wraps `function` so that it is a stage inside a fetch, and a span in a loop. Otherwise it just runs."""
    inside = timed(function, stages.number("label", name))

    @unseen
    @functools.wraps(function)
    def watched(*args: Any, **kwargs: Any) -> Any:
        if local.timer is not None:
            return inside(*args, **kwargs)
        beyond = beyond_fetch.to
        if beyond is None or not beyond.begin(name):
            return function(*args, **kwargs)
        try:
            return function(*args, **kwargs)
        finally:
            beyond.end()

    return watched


def _row_of(function: Any, name: str) -> Any:
    """The wrapper of a function. A call of a generator function only begins: there, each step is timed."""
    return _by_steps(function, _anywhere(_step, name)) if _kind(function) else _anywhere(function, name)


def modules_of(functions: tuple[str, ...]) -> set[str]:
    """The modules named by `module:function` texts."""
    return {one.partition(":")[0] for one in functions}


def name_of_span(text: str) -> str:
    """The name of the row of a `module:function` text."""
    return text.partition(":")[2]


def _found(text: str) -> tuple[Any, str, Any]:
    """What holds the function, the function's own name, and the function; None for what there is not."""
    module_name, _, path = text.partition(":")
    owner: Any = sys.modules.get(module_name)
    *parents, name = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent, None)
    return owner, name, getattr(owner, name, None)


def _is_function(found: Any) -> bool:
    """Whether a function may stand in its place. For a class it may not: scripts derive from it, and ask for it."""
    return callable(found) and not isinstance(found, type)


def missing(text: str) -> Literal["module", "function"] | None:
    """Why a `module:function` text names no function in this process: "module" or "function"; None if it names one."""
    if _is_function(_found(text)[2]):
        return None
    return "function" if text.partition(":")[0] in sys.modules else "module"


def watch_functions(patches: Patches, functions: tuple[str, ...]) -> None:
    """Times each `module:function` or `module:Class.method` whose module is loaded, unless it is timed already."""
    for text in functions:
        owner, name, plain = _found(text)
        if _is_function(plain) and not is_wrapper(plain):
            wrapped = _timed_as_held(owner, name, plain, name_of_span(text))
            if wrapped is plain:
                continue
            patches.replace(owner, name, wrapped)
            for space in behind([plain]):
                if space.get(name) is plain:
                    space[name] = wrapped


def _timed_as_held(owner: Any, name: str, plain: Any, row: str) -> Any:
    """The wrapper of a function, as its owner holds it: a static method and one of a class stay what they are."""
    held = next((vars(kind)[name] for kind in getattr(owner, "__mro__", ()) if name in vars(kind)), None)
    if isinstance(held, staticmethod | classmethod):
        inner = _row_of(held.__func__, row)
        return plain if inner is held.__func__ else type(held)(inner)
    wrapped = _row_of(plain, row)
    for own in _OF_A_CACHE:
        if hasattr(plain, own):
            setattr(wrapped, own, getattr(plain, own))
    return wrapped
