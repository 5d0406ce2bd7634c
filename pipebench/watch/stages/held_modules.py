"""Times modules (`torch.nn.Module`) that a dataset holds in the script's own process, these very objects.

Their class may be one of the model, too, so it stays as it is. While a batch is fetched, each of the objects has a
`forward` of its own, which times that of its class. Afterwards it has none, so whatever uses it
finds it as it is without us. What copies or pickles it while a batch is fetched makes an object that works as it.
"""

from __future__ import annotations

import sys
import types
import weakref
from collections.abc import Iterable
from typing import Any

from pipebench.watch.record.exclusive_time import local
from pipebench.watch.record.patches import unseen
from pipebench.watch.stages.called import in_class


class _Forward:
    """Stands for the `forward` of one module, which it calls."""

    def __init__(self, module: Any, stage: int) -> None:
        self._module, self._stage = weakref.ref(module), stage
        self._function = type(module).forward
        self.__wrapped__ = types.MethodType(self._function, module)
        self._compiling = getattr(sys.modules.get("torch.compiler"), "is_compiling", bool)
        calls = getattr(getattr(type(module), "_call_impl", None), "__code__", None)
        self._calls = getattr(calls, "co_filename", None)  # the file of torch's function that calls `self.forward`

    @unseen
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._compiling():
            return self.__wrapped__(*args, **kwargs)
        function = self._for(sys._getframe(1))
        timer = local.timer
        if timer is None or not timer.splits:
            return function(*args, **kwargs)
        before = timer.switch(self._stage)
        try:
            return function(*args, **kwargs)
        finally:
            timer.switch(before)

    def _for(self, caller: types.FrameType) -> Any:
        """What is called: that of another module, if this was copied with all that the module holds."""
        if caller.f_code.co_filename == self._calls:
            other = caller.f_locals.get("self")
            if other is not None and other is not self._module() and vars(other).get("forward") is self:
                return types.MethodType(self._function, other)
        return self.__wrapped__

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["__wrapped__"], name)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        copied = memo.get(id(self._module()))
        return self.__wrapped__ if copied is None else types.MethodType(self._function, copied)

    def __reduce__(self) -> Any:
        return getattr, (self._module(), "forward")


class HeldModules:
    """The modules that have rows of their own while a batch is fetched."""

    def __init__(self, rows: Iterable[tuple[Any, int]] = ()) -> None:
        self._rows = [(weakref.ref(one), number) for one, number in rows if _can_be_timed(one)]
        self._set: list[tuple[dict[str, Any], _Forward]] = []

    def begin(self) -> None:
        if self._rows:
            _in_fetch.append(self)
        for held, number in self._rows:
            module = held()
            if module is not None and "forward" not in vars(module):
                forward = _Forward(module, number)
                self._set.append((vars(module), forward))  # first: Ctrl-C may come in between
                vars(module)["forward"] = forward

    def end(self) -> None:
        while self._set:
            attributes, forward = self._set.pop()
            if attributes.get("forward") is forward:
                del attributes["forward"]
        if self in _in_fetch:
            _in_fetch.remove(self)

    def leave(self) -> None:
        """Leaves the modules alone from now on."""
        self._rows.clear()
        self.end()


_in_fetch: list[HeldModules] = []


def compiles() -> None:
    """Notes that `torch.compile` is about to trace. If it does so for a dataset, the modules there have no rows.

    What is compiled depends on what the modules hold, so it would be compiled again.
    """
    if local.timer is not None:
        for one in list(_in_fetch):
            one.leave()


def _can_be_timed(module: Any) -> bool:
    """Whether calls of a module run the `forward` that its class has: no compiled one, and none of its own."""
    _, found = in_class(type(module), "forward")
    own = vars(module)
    return isinstance(found, types.FunctionType) and "forward" not in own and own.get("_compiled_call_impl") is None
