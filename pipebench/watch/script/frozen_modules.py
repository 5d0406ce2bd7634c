"""Finds the modules in a forward whose weights stay as they are, such as a pretrained encoder, by looks at its stack.

Such a module gives the same outputs for the same inputs, so these could be kept. The outermost one is told, if none of
its inputs requires a gradient. Whether gradients are off cannot be asked for another thread, and need not be: weights
that an optimiser changes, or that follow those of another model (EMA, target networks), are seen to change.
"""

from __future__ import annotations

import contextlib
import linecache
import re
import sys
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import CodeType
from typing import Any

from pipebench.watch.record.trial_lines import ModuleLooks
from pipebench.watch.script.loop_place import Call

_FEWEST_TURNS = 8  # between the first look at its weights and the last one
_MOST = 300  # modules, and ways to them
_READ, _VALUES = 16, 64  # of its weights: a change through `.data` gives them no new version
_NESTED = 3  # levels of lists and dictionaries in which inputs are looked for
_VARIES = ("BatchNorm", "Dropout", "DropPath", "StochasticDepth")  # these give other outputs in train mode each time
_NAMED = re.compile(r"[A-Za-z_][\w.]*(\[\w+\])?(?=\()")


class _Module:
    """What is known of a module: its weights when it was first seen, and whether they have changed since then."""

    def __init__(self, module: Any, parent: Any, call: Call, turn: int) -> None:
        parameters = [*module.parameters()]
        self._of, self._parent = weakref.ref(module), weakref.ref(parent) if parent is not None else None
        self._caller, self._instruction = call.caller, call.instruction
        self._first = self._last = turn
        self._weights = _weights(parameters)
        self.looks = 0
        self.empty, self.changes = not parameters, False
        self.trainable = any(one.requires_grad for one in parameters)
        self.on_device = any(one.device.type != "cpu" for one in parameters)
        self.form = type(module), tuple(one.shape for one in parameters)
        self._varies = next((type(one).__name__ for one in module.modules() if _varies(one)), "")

    def is_of(self, module: Any) -> bool:
        return self._of() is module

    @property
    def settled(self) -> bool:
        return self._last - self._first >= _FEWEST_TURNS

    def check(self, turn: int) -> None:
        """Compares its weights. If it is gone, what is known of it stays."""
        if not self.changes and (module := self._of()) is not None:
            self._last = turn
            try:
                self.changes = _weights([*module.parameters()]) != self._weights
            except Exception:  # weights may be of any kind: those that cannot be compared are not known to stay
                self.changes = True

    def line(self, looks: int) -> ModuleLooks:
        module, parent = self._of(), self._parent() if self._parent is not None else None
        inside = parent.named_modules() if module is not None and parent is not None else ()
        name = next((name for name, one in inside if one is module), "") or _named(self._caller, self._instruction)
        return ModuleLooks(name, self.form[0].__name__, looks, self._varies, self.on_device)


class FrozenModules:
    """What looks at the forward of one loop have met. `turns` are those of the loop.

    A look counts for a way: the modules that it found the loop in, the outermost first, without those that change.
    """

    def __init__(self) -> None:
        self.turns = 0
        self._known: dict[int, _Module] = {}
        self._ways: Counter[tuple[_Module, ...]] = Counter()

    def note(self, calls: Iterable[Call]) -> None:
        """Counts a look at a forward. `calls` are those of modules, the outermost first."""
        with _plain_tensors():
            way = tuple(self._way(calls))
        if way in self._ways or len(self._ways) < _MOST:
            self._ways[way] += 1

    def _way(self, calls: Iterable[Call]) -> Iterator[_Module]:
        parent = None
        for call in calls:
            given = call.frame.f_locals
            if any(one.requires_grad for one in _tensors((given["args"], given["kwargs"]))):
                return
            one, parent = self._seen(given["self"], parent, call), given["self"]
            if one is None or one.empty:
                continue
            one.looks += 1
            if one.looks & (one.looks - 1) == 0:  # at the 1st, 2nd, 4th … look
                one.check(self.turns)
            if not one.changes:
                yield one
            if not one.trainable:
                return

    def _seen(self, module: Any, parent: Any, call: Call) -> _Module | None:
        """What is known of this module; None if it cannot be looked at, or if there are too many."""
        known = self._known.get(id(module))
        if known is not None and known.is_of(module):
            return known
        if len(self._known) >= _MOST:
            return None
        try:
            self._known[id(module)] = made = _Module(module, parent, call, self.turns)
        except Exception:  # as of weights that have no shape before the first call
            return None
        return made

    def found(self) -> list[ModuleLooks]:
        """The outermost modules that have not changed so far, with all looks at them.

        The values of weights on a device are not read, because that waits for it, and some optimisers change them
        without a new version. So what could be trained is left out there, and what has the form of that: a copy may
        follow it.
        """
        looks: Counter[_Module] = Counter()
        with _plain_tensors():
            for way, count in list(self._ways.items()):
                if (first := self._unchanged(way)) is not None:
                    looks[first] += count
        trained = {one.form for one in list(self._known.values()) if one.trainable}
        return [one.line(n) for one, n in looks.items() if one.settled and not (one.on_device and one.form in trained)]

    def _unchanged(self, way: Sequence[_Module]) -> _Module | None:
        for one in way:
            one.check(self.turns)
            if not one.changes:
                return one
        return None


def _plain_tensors() -> contextlib.AbstractContextManager[object]:
    """No `__torch_function__` of the script hears of what is asked of tensors."""
    found: contextlib.AbstractContextManager[object] = sys.modules["torch"]._C.DisableTorchFunction()
    return found


def _tensors(given: Any, levels: int = _NESTED) -> Iterator[Any]:
    if isinstance(given, sys.modules["torch"].Tensor):
        yield given
    elif levels and isinstance(given, (list, tuple, Mapping)):
        for one in given.values() if isinstance(given, Mapping) else given:
            yield from _tensors(one, levels - 1)


def _weights(parameters: Sequence[Any]) -> Any:
    """What another state of the weights differs in: objects, versions, and some values of those on the host."""
    each = max(1, len(parameters) // _READ)
    return [(id(one), _version(one)) for one in parameters], [_values(one) for one in parameters[::each]]


def _version(parameter: Any) -> int:
    return -1 if parameter.is_inference() else int(parameter._version)


def _values(parameter: Any) -> list[float]:
    if parameter.device.type != "cpu" or not parameter.numel() or parameter.layout != sys.modules["torch"].strided:
        return []
    row = parameter.detach()
    while row.dim() > 1 and not row.is_contiguous():
        row = row[-1]
    row = row.reshape(-1)
    found: list[float] = row[:: max(1, len(row) // _VALUES)].tolist()
    return [one for one in found if one == one]  # nan differs from itself


def _varies(module: Any) -> bool:
    kind = type(module).__name__
    share = getattr(module, "p", getattr(module, "drop_prob", None))
    return module.training and any(one in kind for one in _VARIES) and share != 0


def _named(code: CodeType, instruction: int) -> str:
    """What a line calls there, as `encoder` in `encoder(images)`; "" if it has no name."""
    place = next(islice(code.co_positions(), instruction // 2, None), None)
    if place is None or place[0] is None or place[2] is None:
        return ""
    text = linecache.getline(code.co_filename, place[0]).encode()[place[2] :].decode(errors="ignore")
    found = _NAMED.match(text)
    return found[0].removeprefix("self.") if found else ""
