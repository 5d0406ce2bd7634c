"""Times the labels that the script sets: `span`, and `record_function`, which torch's profiler loses in workers."""

from __future__ import annotations

import functools
import sys
from typing import Any

from pipebench.watch.record.exclusive_time import local, stages, timed
from pipebench.watch.record.patches import HIDDEN, Patches, behind, unseen


class span:
    """Names the work inside a `with` block or a decorated function. Without a watch it costs almost nothing.

    >>> with span("tokenise"):
    ...     pass
    """

    __slots__ = ("_before", "_name", "_timer")

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> span:
        timer = self._timer = local.timer
        if timer is not None:
            self._before = timer.switch(stages.number("label", self._name))
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.switch(self._before)

    def __call__(self, function: Any) -> Any:
        @functools.wraps(function)
        def labelled(*args: Any, **kwargs: Any) -> Any:
            with span(self._name):
                return function(*args, **kwargs)

        return labelled


def watch_record_function(patches: Patches) -> None:
    """Makes a row of each `record_function` block that runs while a batch is fetched."""
    profiler: Any = sys.modules["torch.autograd.profiler"]
    kind = profiler.record_function
    enter, leave = kind.__enter__, kind.__exit__
    if "pipebench" in enter.__code__.co_filename:
        return

    @unseen
    @functools.wraps(enter)
    def __enter__(self: Any) -> Any:
        timer = local.timer
        if timer is not None:
            stage = stages.number("label", str(self.name)[:200])
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


def modules_of(functions: tuple[str, ...]) -> set[str]:
    """The modules named by `module:function` texts."""
    return {one.partition(":")[0] for one in functions}


def watch_functions(patches: Patches, functions: tuple[str, ...]) -> None:
    """Times each `module:function` or `module:Class.method` whose module is loaded, unless it is timed already."""
    for text in functions:
        module_name, _, path = text.partition(":")
        owner: Any = sys.modules.get(module_name)
        *parents, name = path.split(".")
        for parent in parents:
            owner = getattr(owner, parent, None)
        plain = getattr(owner, name, None)
        if callable(plain) and getattr(getattr(plain, "__code__", None), "co_filename", "") != HIDDEN:
            wrapped = timed(plain, stages.number("label", path))
            patches.replace(owner, name, wrapped)
            for space in behind([plain]):
                if space.get(name) is plain:
                    space[name] = wrapped
