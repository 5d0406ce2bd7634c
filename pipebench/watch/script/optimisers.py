"""When an optimiser steps, in the script's process: hooks of torch's, without any on modules."""

from __future__ import annotations

import functools
import inspect
import sys
import types
from types import FrameType
from typing import Any

from pipebench.watch.record.patches import unseen
from pipebench.watch.record.record_file import OPTIMISER, OTHER
from pipebench.watch.script import gradient_rows, left_on
from pipebench.watch.script.backward import compiling
from pipebench.watch.script.phases import LoopPhases
from pipebench.watch.script.without_loader import LoopWithoutLoader

_LOOKED_AT = max(left_on.LAST, gradient_rows.LAST)  # steps: later ones are not looked at any more


class _Hooks:
    """What torch calls before and after each step of each optimiser.

    It calls them once for each class whose `step` is called, so `super().step()` in a step calls them again, and so
    does the step of an optimiser that a ZeroRedundancyOptimizer holds. Such a step is a part of the outer one.
    """

    def __init__(self, loop: LoopPhases) -> None:
        self._loop = loop
        self._bare = LoopWithoutLoader(loop)
        self._tools = left_on.LeftOnTools(loop.recording, loop.gradients)
        self._rows = gradient_rows.RowLooks(loop.recording)
        self._steps = 0
        self._first = 0  # the optimiser that was the first to step
        self._several = False  # then another one may be trained after a step

    @unseen
    def before(self, optimiser: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        loop = self._loop
        loop.line_counts.stop()
        if compiling() or not loop.recording.on or _in_another(sys._getframe(1)):
            return None
        if not loop.here.open or (this := loop.spend(OTHER)) is None:
            return None
        given = _with_closure(loop, optimiser, args, kwargs)
        if this is loop.here.bare and not this.trained and given is None:
            self._bare.follows(id(optimiser))
        this.trained |= given is None  # a closure comes to its backward first
        return given

    @unseen
    def after(self, optimiser: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        loop = self._loop
        if compiling() or not loop.recording.on:
            return
        loop.recording.guarded("noting an optimiser", loop.gradients.stepped, optimiser)
        if _in_another(sys._getframe(1)):
            return
        here = loop.here
        this = loop.spend(OPTIMISER, unnamed=OPTIMISER) if here.open else None
        if this is not None:
            this.trained = True
            this.steps += 1
            if not here.backward:  # some step for each parameter, inside the backward
                this.device.trained()
        if loop.own is not None and here.main:
            loop.own.stepped([one.loader for one in here.open])
        if self._steps < _LOOKED_AT:
            self._steps += 1
            self._tools.stepped()
            self._rows.stepped(optimiser)
        loop.recording.guarded("finding a loop without a loader", self._bare.stepped, id(optimiser), this)
        if this is not None and not here.backward:
            self._first = self._first or id(optimiser)
            self._several |= self._first != id(optimiser)
            loop.count_lines(this, "after", model=this is here.bare or self._several)


def watch_optimisers(loop: LoopPhases, module: Any) -> None:
    """Sets hooks before and after every optimiser's step. A closure given to `step` runs forward and backward in it."""
    hooks = _Hooks(loop)
    for register, hook in (
        (module.register_optimizer_step_pre_hook, hooks.before),
        (module.register_optimizer_step_post_hook, hooks.after),
    ):
        loop.recording.patches.on_undo(register(hook).remove)
    _watch_made(loop, module.Optimizer)


def _watch_made(loop: LoopPhases, kind: Any) -> None:
    """Notes each optimiser that is made: one may hold parameters long before its first step."""
    plain = kind.__init__

    @unseen
    @functools.wraps(plain)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        plain(self, *args, **kwargs)
        loop.recording.guarded("noting an optimiser", loop.gradients.made, self)

    loop.recording.patches.replace(kind, "__init__", __init__)


def _in_another(step: FrameType) -> bool:
    """Whether torch's frame around a step is inside another such frame. A step that fails leaves nothing to undo."""
    outer = step.f_back
    while outer is not None and outer.f_code is not step.f_code:
        outer = outer.f_back
    return outer is not None


def _with_closure(loop: LoopPhases, optimiser: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The arguments of a step with its closure wrapped; None without a closure."""
    if "closure" in kwargs:
        return args, {**kwargs, "closure": _outside(loop, kwargs["closure"])}
    if len(args) > 1 and _takes_a_closure(type(optimiser).step):
        return (args[0], _outside(loop, args[1]), *args[2:]), kwargs
    return None


def _takes_a_closure(step: Any) -> bool:
    """Whether that is what a step takes first: a step of the script's own may take anything, such as a model."""
    code = getattr(inspect.unwrap(step), "__code__", None)
    return code is not None and code.co_varnames[1 : code.co_argcount][:1] == ("closure",)


def _outside(loop: LoopPhases, closure: Any) -> Any:
    """A closure of `step` whose time does not count as the optimiser's.

    An object stays itself, because the optimiser may look at its attributes, and so may it at what methods and partials
    hold.
    """
    if type(closure) is types.MethodType:
        return types.MethodType(_outside(loop, closure.__func__), closure.__self__)
    if type(closure) is functools.partial:
        part = functools.partial(_outside(loop, closure.func), *closure.args, **closure.keywords)
        vars(part).update(vars(closure))
        return part
    if type(closure) is not types.FunctionType:
        return closure

    @unseen
    @functools.wraps(closure)
    def run(*args: Any, **kwargs: Any) -> Any:
        loop.spend(OPTIMISER, unnamed=OPTIMISER)
        try:
            return closure(*args, **kwargs)
        finally:
            loop.spend(OTHER)

    return run
