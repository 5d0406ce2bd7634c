"""Times a Python function where it is: the function stays the same object, and only its code is another one.

So whoever holds it, compares it, pickles it by its name or asks for its arguments finds what he finds without us.
"""

from __future__ import annotations

import functools
import linecache
import sys
import types
from typing import Any, TypeGuard

from pipebench.watch.record.exclusive_time import StageTimer, local
from pipebench.watch.record.patches import HIDDEN, Patches, is_wrapper

LAZY = 0x20 | 0x80 | 0x200  # generators and coroutines: a call does none of their work
# A function that was called so often, and was shorter than this on average, is no longer timed: to time it costs a
# microsecond.
_TRIED, _SHORT_NS = 2_000, 20_000
VARIABLE, NAMED = 0x04, 0x08  # takes *args, takes **kwargs
_TIMED, _PLAIN = "pipebench: what times the call", "pipebench: what is called"  # stand for objects in the code
_NAMES = "_pipebench_timed", "_pipebench_plain", "_pipebench_state"
_State = tuple[StageTimer, int, int]


def can_be_timed(function: Any) -> TypeGuard[types.FunctionType]:
    """Whether this is a function of Python whose calls do its work, and which is not timed yet."""
    if not isinstance(function, types.FunctionType) or is_wrapper(function) or _compiled(function):
        return False
    return not function.__code__.co_flags & LAZY


def own_code(function: types.FunctionType) -> types.CodeType:
    """The code that a function has without us."""
    code = function.__code__
    return next((one.own for one in code.co_consts if isinstance(one, _Timed)), code) if is_wrapper(function) else code


def _compiled(function: types.FunctionType) -> bool:
    """Whether numba compiles this function. It does so at the first call, from the code that it finds then."""
    if "numba" not in sys.modules:
        return False
    beside = [one for one in function.__globals__.values() if str(type(one).__module__).startswith("numba.")]
    return any(getattr(one, "py_func", None) is function for one in beside)


def watch(function: types.FunctionType, stage: int, patches: Patches, whole: bool = False) -> None:
    """Lets `function` be a stage of its own while a thread fetches a batch.

    `whole`: its calls are added up with the stages inside them, too, and it is timed no longer once it has turned out
    to be short.
    """
    try:
        timed = _Timed(function, stage, whole)
    except (SyntaxError, ValueError):  # a function that no text can make: it is not timed
        return
    timed.exchange(timed.own, timed.ours)
    patches.on_undo(timed.stop)


class _Timed:
    """A function, its `own` code and `ours`. A function that calls itself runs on its own code inside its first call.

    Otherwise each level of a recursion would take several frames, and the stack would end before it does without us.
    """

    def __init__(self, function: types.FunctionType, stage: int, whole: bool) -> None:
        self.function, self.stage, self.whole = function, stage, whole
        self.left, self.spent = _TRIED if whole else 0, 0
        self.own = function.__code__
        self.plain = types.FunctionType(self.own, function.__globals__, function.__name__, None, function.__closure__)
        self.ours = _calling(self, self.own)
        self.inside: StageTimer | None = None
        self.stopped = self.calls_itself = False

    def exchange(self, one: types.CodeType, other: types.CodeType) -> None:
        if self.function.__code__ is one:
            self.function.__code__ = other

    def stop(self) -> None:
        self.stopped = True
        self.exchange(self.ours, self.own)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles of functions by their code, as those of cloudpickle, hold the function alone, which nothing times."""
        return functools.partial, (self.plain,), (self.plain, (), {}, {"begins": type(None)})

    def begins(self) -> _State | None:
        """Enters the stage. None: this call is not timed."""
        timer = local.timer
        if timer is None or self.stopped or not timer.splits:
            return None
        if self.inside is timer:
            self.calls_itself = True
            self.exchange(self.ours, self.own)
            return None
        before = timer.switch(self.stage)
        self.inside = timer
        if self.calls_itself:
            self.exchange(self.ours, self.own)
        return timer, before, timer.last

    def ends(self, state: _State) -> None:
        timer, before, began = state
        self.inside = None
        timer.switch(before)
        if self.whole and before != self.stage:  # else it called itself
            timer.whole[self.stage] += timer.last - began
        if self.left:
            self._tries(timer, before, began)
        if self.calls_itself and not self.stopped:
            self.exchange(self.own, self.ours)

    def _tries(self, timer: StageTimer, before: int, began: int) -> None:
        self.left, self.spent = self.left - 1, self.spent + timer.last - began
        if not self.left and self.spent < _TRIED * _SHORT_NS:
            self.stop()
            if before != self.stage:
                timer.left[self.stage] = before


def _calling(timed: _Timed, own: types.CodeType) -> types.CodeType:
    """Code with the arguments, the names and the lines of `own`, which calls `timed.plain` with these arguments.

    It names each argument: to pack and unpack them would take longer. Raises ValueError or SyntaxError if no text can
    make it.
    """
    count, first = own.co_argcount, own.co_posonlyargcount
    positional, named = [*own.co_varnames[:count]], [*own.co_varnames[count : count + own.co_kwonlyargcount]]
    rest = [*own.co_varnames[count + len(named) :]]
    several = f"*{rest.pop(0)}" if own.co_flags & VARIABLE else ""
    others = f"**{rest.pop(0)}" if own.co_flags & NAMED else ""
    star = several or ("*" if named else "")
    takes = [*positional[:first], *(["/"] if first else []), *positional[first:], star, *named, others]
    gives = [*positional, several, *(f"{one}={one}" for one in named), others]
    name, plain, state = _NAMES
    call = f"{plain}({', '.join(filter(None, gives))})"
    cells = own.co_freevars  # the frame of a function that has some must be made with them: a debugger reads it
    within = f"    {' = '.join(cells)} = None\n" if cells else ""
    unused = f"        if 0: {', '.join(cells)}\n" if cells else ""
    text = (
        f"def around():\n{within}    def made({', '.join(filter(None, takes))}):\n{unused}"
        f"        {name} = {_TIMED!r}\n        {plain} = {_PLAIN!r}\n"
        f"        {state} = {name}.begins()\n"
        f"        if {state} is None:\n            return {call}\n"
        f"        try:\n            return {call}\n"
        f"        finally:\n            {name}.ends({state})\n"
    )
    file = HIDDEN + own.co_filename
    linecache.cache.setdefault(file, (lambda: "".join(linecache.getlines(own.co_filename)),))  # for `inspect.getsource`
    made = _inner(_inner(compile(text, file, "exec", dont_inherit=True)))
    if made.co_freevars != cells:
        raise ValueError("the cells of a function are in another order")
    objects = {_TIMED: timed, _PLAIN: timed.plain}
    return made.replace(
        co_name=own.co_name,
        co_qualname=own.co_qualname,
        co_firstlineno=own.co_firstlineno,
        co_consts=tuple(objects.get(one, one) if isinstance(one, str) else one for one in made.co_consts),
    )


def _inner(code: types.CodeType) -> types.CodeType:
    return next(one for one in code.co_consts if isinstance(one, types.CodeType))
