"""Finds the modules in a forward whose weights stay as they are, such as a pretrained encoder, by looks at its stack.

Such a module gives the same outputs for the same inputs, so these could be kept. The outermost one is told, if none of
its inputs requires a gradient that somebody uses. Whether gradients are off cannot be asked for another thread, and
need not be: weights that an optimiser changes, or that follow those of another model (EMA, target networks), are seen
to change.

If they get gradients all the same, and nobody uses these (see `unused_gradients`), the backward runs through it for
nothing.
"""

from __future__ import annotations

import functools
import linecache
import re
import sys
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from types import CodeType
from typing import Any, NamedTuple

from pipebench.watch.record.from_handlers import from_a_handler
from pipebench.watch.record.trial_lines import ModuleLooks
from pipebench.watch.script.loop_place import Call
from pipebench.watch.script.unused_gradients import UnusedGradients, plain_tensors

_FEWEST_TURNS = 8  # between the first look at its weights and the last one
_MOST = 300  # modules, and ways to them
_READ, _VALUES = 16, 64  # of its weights: a change through `.data` gives them no new version
_ENTRIES = 64  # of a list or a dictionary
_NESTED = 3  # levels of lists and dictionaries in which inputs are looked for
# Of a module: gradients that somebody asks for, or weights that are made of others.
_HOOKS = ("_backward_hooks", "_backward_pre_hooks", "_forward_pre_hooks")
_VARIES = ("BatchNorm", "Dropout", "DropPath", "StochasticDepth")  # these give other outputs in train mode each time
_NAMED = re.compile(r"[A-Za-z_][\w.]*(\[\w+\])?(?=\()")


class _Module:
    """What is known of a module: its weights when it was first seen, and whether they have changed since then."""

    def __init__(self, module: Any, parent: Any, call: Call, turn: int) -> None:
        parameters = [*module.parameters()]
        self._of, self._parent = weakref.ref(module), weakref.ref(parent) if parent is not None else None
        self._caller, self._instruction = call.caller, call.instruction
        self._caller_kind = type(parent).__name__ if parent is not None else ""
        self._first = self._last = turn
        self._weights = _weights(parameters)
        self.looks = 0
        self.empty, self.changes, self._unused = not parameters, False, False
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
            except Exception as error:  # weights may be of any kind: those that cannot be compared may change
                if from_a_handler(error):
                    raise
                self.changes = True

    def gets_unused(self, gradients: UnusedGradients, loader: int) -> bool:
        """Whether the backward of this loop computes gradients of its weights, and nobody uses those of any.

        If it is gone, what was found last stays.
        """
        if self.trainable and (gradients.some or self._unused) and (module := self._of()) is not None:
            hooked = any(_is_hooked(one) for one in module.modules())
            trainable = [one for one in module.parameters() if one.requires_grad]
            self._unused = not hooked and gradients.unused(loader, trainable)
        return self._unused and not self.changes

    def line(self, looks: int) -> ModuleLooks:
        module, parent = self._of(), self._parent() if self._parent is not None else None
        inside = parent.named_modules() if module is not None and parent is not None else ()
        name = next((name for name, one in inside if one is module), "") or _named(self._caller, self._instruction)
        return ModuleLooks(name, self.form[0].__name__, looks, self._varies, self.on_device, self._caller_kind)


class _Entered(NamedTuple):
    """A module on the way that a look found. `fed`: an input of it, or of one around it, requires a gradient."""

    module: _Module
    fed: bool


class Found(NamedTuple):
    """The outermost modules that stay as they are, and those that get gradients that nobody uses."""

    frozen: list[ModuleLooks]
    unused: list[ModuleLooks]


class FrozenModules:
    """What looks at the forward of one loop have met. `turns` are those of the loop.

    A look counts for a way: the modules that it found the loop in, the outermost first, without those that change.
    """

    def __init__(self) -> None:
        self.turns = 0
        self._known: dict[int, _Module] = {}
        self._ways: Counter[tuple[_Entered, ...]] = Counter()

    def note(self, calls: Iterable[Call], gradients: UnusedGradients) -> None:
        """Counts a look at a forward. `calls` are those of modules, the outermost first."""
        with plain_tensors():
            way = tuple(self._way(calls, gradients.possible))
        if way in self._ways or len(self._ways) < _MOST:
            self._ways[way] += 1

    def _way(self, calls: Iterable[Call], unused: bool) -> Iterator[_Entered]:
        parent, fed = None, False
        for call in calls:
            given = call.frame.f_locals
            fed = fed or any(one.requires_grad for one in tensors_in((given["args"], given["kwargs"])))
            if fed and not unused:
                return
            one, parent = self._seen(given["self"], parent, call), given["self"]
            if one is None or one.empty:
                continue
            one.looks += 1
            if one.looks & (one.looks - 1) == 0:  # at the 1st, 2nd, 4th … look
                one.check(self.turns)
            if not one.changes:
                yield _Entered(one, fed)
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

    def found(self, gradients: UnusedGradients, loader: int) -> Found:
        """The outermost modules that have not changed so far, with all looks at them.

        The values of weights on a device are not read, because that waits for it, and some optimisers change them
        without a new version. So what could be trained is left out there, and what has the form of that: a copy may
        follow it. What gets gradients that nobody uses is not trained, and may be what others follow.
        """
        frozen: Counter[_Module] = Counter()
        unused: Counter[_Module] = Counter()

        checked: set[_Module] = set()

        @functools.cache
        def in_vain(one: _Module) -> bool:
            return one.gets_unused(gradients, loader)

        with plain_tensors():
            for way, count in list(self._ways.items()):
                stays = self._unchanged(way, checked)
                first = next(stays, None)
                if first is None:
                    continue
                if not first.fed or in_vain(first.module):
                    frozen[first.module] += count
                unused.update({one: count for one in islice((one for one, _ in (first, *stays) if in_vain(one)), 1)})
            trained = {one for one in list(self._known.values()) if one.on_device and one.trainable}
            taught = {one.form for one in trained if not in_vain(one)} if unused else set()
        return Found(_lines(frozen, {one.form for one in trained}), _lines(unused, taught))

    def _unchanged(self, way: Iterable[_Entered], checked: set[_Module]) -> Iterator[_Entered]:
        for one in way:
            if one.module not in checked:
                one.module.check(self.turns)
                checked.add(one.module)
            if not one.module.changes:
                yield one


def _is_hooked(module: Any) -> bool:
    """Whether something else may use what its backward computes. A `__getattr__` of the script's own is not asked."""
    own = vars(module)
    return any(own.get(name) for name in _HOOKS) or "parametrizations" in own.get("_modules", ())


def _lines(looks: Counter[_Module], left_out: set[Any]) -> list[ModuleLooks]:
    """Those of the modules that were looked at for long enough, without those on a device of such a form."""
    return [one.line(n) for one, n in looks.items() if one.settled and not (one.on_device and one.form in left_out)]


def tensors_in(given: Any, levels: int = _NESTED) -> Iterator[Any]:
    if isinstance(given, sys.modules["torch"].Tensor):
        yield given
    elif levels and isinstance(given, (list, tuple, dict)):  # any other mapping may make its values when it is asked
        for one in islice(dict.values(given) if isinstance(given, dict) else given, _ENTRIES):
            yield from tensors_in(one, levels - 1)


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
