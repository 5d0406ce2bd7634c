"""A callable without arguments as a task and a variant: what a round's process times besides the stages of a loader.

This file runs inside a side of a comparison (`round_process` reads it by its path) and uses the standard library only.
"""

from __future__ import annotations

import functools
import importlib.machinery
import inspect
import os
from collections.abc import Callable, Iterator
from typing import Any

Call = Callable[[], Any]


class Function:
    """A callable whose output can be looked at as that of an `OpenCall`.

    `fresh` gives the callable with its inputs set up anew.
    """

    unseen = given = None

    def __init__(self, call: Call, fresh: Callable[[], Call] | None, samples: int) -> None:
        self.call, self.fresh, self._samples = call, fresh or (lambda: call), samples

    def __call__(self, given: Any) -> Any:
        return self.call()

    def outputs(self) -> Iterator[Any]:
        yield self.call()

    def samples(self, output: Any) -> int:
        return self._samples


def idle(function: Callable[..., Any]) -> str | None:
    """What is wrong with timing a function of which a call does none of its work; None if a call does it."""
    while isinstance(function, functools.partial):
        function = function.func
    code = function if inspect.isroutine(function) else type(function).__call__
    name = getattr(function, "__name__", type(function).__name__)
    if inspect.iscoroutinefunction(code):
        return f"a call of the coroutine function {name} does none of its work: time lambda: asyncio.run({name}(...))"
    if inspect.isgeneratorfunction(code) or inspect.isasyncgenfunction(code):
        return f"a call of the generator function {name} does none of its work: time lambda: list({name}(...))"
    return None


def of_commit(build: Callable[[], Call], folder: str | None) -> Call:
    """The callable that `build` makes. RuntimeError: an import of the commit's own code failed, no missing library."""
    try:
        call = build()
        if (problem := idle(call)) is not None:
            raise TypeError(problem)
        return call
    except ImportError as error:
        if folder and _lies_in(error.name or "", folder):
            problem = f"{type(error).__name__}: {error}; if building makes it, give --build COMMAND"
            raise RuntimeError(problem).with_traceback(error.__traceback__) from error
        raise


def _lies_in(module: str, folder: str) -> bool:
    """Whether the top-level package of a module is in the folder. It is not imported if its own import failed."""
    spec = importlib.machinery.PathFinder.find_spec(module.partition(".")[0])
    files = [spec.origin or "", *(spec.submodule_search_locations or ())] if spec else []
    return any(one.startswith(folder + os.sep) for one in files)


def of_call(
    words: Any, identity: str, build: Callable[[], Call], samples: int = 1, check: Any = None,
    fresh: Callable[[], Call] | None = None,
) -> Any:  # fmt: skip
    """The task and the variant, in the `words` of the pipebench at hand. `check` gets the output of the first call."""
    stage, _, name = identity.partition("/")

    def work(given: Any, output: Any) -> Any:
        if check is not None:
            check(output)
        return words.Work(samples, 0, 0)

    task = words.Task(
        id=stage, summary="a function", groups=lambda workload: [("own",)], inputs=lambda workload, keys: [None],
        check=lambda output, given: None, agree=lambda output, expected, variant: None, work=work,
        per_call=lambda workload: 1,
    )  # fmt: skip
    return task, words.Variant(stage, name, lambda workload: Function(build(), fresh, samples))
