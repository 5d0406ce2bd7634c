"""Where a training loop in a coroutine awaits something: its frame is on no stack then.

What the thread of the event loop does meanwhile is a wait for others, or the work of another coroutine.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import weakref
from collections.abc import Callable, Iterator
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE
from types import CodeType, FrameType
from typing import Any

from pipebench.watch.record.own_code import line_reached, owner
from pipebench.watch.script.look_counts import Loop
from pipebench.watch.script.loop_place import Place, outwards

_ASYNC = CO_COROUTINE | CO_ASYNC_GENERATOR
_EVENTS = ("asyncio", "selectors", "uvloop", "winloop")
_FRAMES, _AWAITED = ("cr_frame", "ag_frame", "gi_frame"), ("cr_await", "ag_await", "gi_yieldfrom")
_DEEPEST = 60
# Stands for the event loop's wait, which has other functions in each.
AWAIT: CodeType = compile("", os.path.join(os.path.dirname(os.__file__), "asyncio", "await"), "exec").replace(
    co_name="await", co_qualname="await"
)


def task_of(code: CodeType) -> Callable[[], Any] | None:
    """A weak reference to the present task of asyncio's, if this is the code of a coroutine."""
    asyncio: Any = sys.modules.get("asyncio") if code.co_flags & _ASYNC else None
    with contextlib.suppress(RuntimeError, TypeError, AttributeError):  # another library runs it
        return weakref.ref(asyncio.current_task()) if asyncio is not None else None
    return None


def awaited(loop: Loop, frame: FrameType) -> Place | None:
    """Where the loop awaits something, whose thread has this innermost frame. None: it runs, or is another one now."""
    task = loop.task() if loop.task is not None else None
    if task is None:
        return None
    suspended = itertools.dropwhile(lambda one: id(one) != loop.frame or one.f_code is not loop.code, _frames(task))
    path = [(one, one.f_code, line_reached(one)) for one in suspended]
    if not path or (loop.inside is not None and path[0][0].f_lasti not in loop.inside):
        return None
    stack = list(outwards(frame))
    inner = list(itertools.takewhile(lambda one: owner(one.f_code.co_filename) not in _EVENTS, stack))
    if len(inner) == len(stack):
        return None
    way = [line[1:] for line in path]
    way += [(one.f_code, line_reached(one)) for one in reversed(inner)] or [(AWAIT, 0)]
    names = tuple(code.co_qualname for code, _ in way[1:])
    return Place(way[0][1], names, tuple(way), trains=False, models=False, asks=not inner)


def _frames(task: Any) -> Iterator[FrameType]:
    """The suspended frames of a task, the outermost first."""
    at = task.get_coro()
    for _ in range(_DEEPEST):
        frame = next((found for name in _FRAMES if (found := getattr(at, name, None)) is not None), None)
        if frame is None:
            return
        yield frame
        at = next((found for name in _AWAITED if (found := getattr(at, name, None)) is not None), None)
