"""Tells whether the datasets of two loaders that one line made hold the same samples, as far as that shows at once.

A training function makes its dataset anew for each epoch; a simulation of clients, or a loop over folds or files, makes
each loader for other samples. No sample is made to tell these apart, and no code of the script is called.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

from pipebench.watch.record.from_handlers import forgiving
from pipebench.watch.record.lines import Remade
from pipebench.watch.script.made import weakly
from pipebench.watch.worker.kept_open import within

_PLAIN = (type(None), bool, int, float, complex, str, bytes, range, os.PathLike)
_DEEP, _MOST = 5, 64  # levels, and attributes or items, that are looked at
_GOLDEN = 0.6180339887498949
_ITEMS = (int, float, str, bytes)  # of lists
_ORDER: tuple[Remade, ...] = ("same", "alike", "other")


class Samples:
    """What each loader's datasets were so far, by the loader's number."""

    def __init__(self) -> None:
        self._latest: dict[int, tuple[Callable[[], Any], object]] = {}
        self._found: dict[int, Remade] = {}
        self.others: dict[int, int] = {}
        self._inside: dict[int, list[tuple[Callable[[], Any], object]]] = {}
        self._anew: dict[int, str] = {}

    def of(self, number: int, dataset: Any) -> Remade:
        """What the datasets of a loader were each time that it was made, this one included, but for other data.

        If there were only such: "other". `others` counts them.
        """
        before, traits = self._latest.get(number), _traits(dataset)
        self._latest[number] = weakly(dataset), traits
        now: Remade = "same"
        if before is not None and before[0]() is not dataset:
            now = "alike" if before[1] == traits else "other"
        self.others[number] = self.others.get(number, 0) + (now == "other")
        if before is not None:
            known = [one for one in (now, self._found.get(number, now)) if one != "other"]
            self._found[number] = max(known, key=_ORDER.index, default="other")
        self._look_inside(number, dataset)
        return self._found.get(number, "same")

    def anew(self, number: int) -> str:
        """The class of a dataset inside that of a loader, if each time another one was there that looks the same."""
        return self._anew.get(number, "")

    def _look_inside(self, number: int, dataset: Any) -> None:
        """Other parts of the same samples, as of folds, may each come with a dataset that is made anew for them."""
        now = [(one, _traits(one)) for one in within(dataset)[1:]]
        if (before := self._inside.get(number)) is not None:
            pairs = zip(now, before, strict=False)
            made = [type(one).__name__ for (one, traits), (old, was) in pairs if old() is not one and traits == was]
            self._anew[number] = made[-1] if made and self._anew.get(number) != "" else ""
        self._inside[number] = [(weakly(one), traits) for one, traits in now]


def _traits(one: Any, level: int = 0) -> object:
    """What shows of a dataset, or of a value in it: its type, plain values, lengths, and some items."""
    with forgiving():
        kind = type(one)
        named = f"{kind.__module__}.{kind.__qualname__}"
        if isinstance(one, _PLAIN):
            return named, hash(one) if isinstance(one, (str, bytes)) else repr(one)
        if level >= _DEEP:
            return named
        if kind in (list, tuple):
            plain = (each for at in _spread(len(one)) if type(each := one[at]) in _ITEMS)
            return named, len(one), *(_traits(each, level + 1) for each in (*plain, *one[:1], *one[-1:]))
        if kind in _arrays():
            return named, *_of_array(one)
        if level == 0 or isinstance(one, _datasets()):
            own = list(vars(one).items())[:_MOST]
            return named, *((name, _traits(value, level + 1)) for name, value in own)
        return named
    return None


def _of_array(one: Any) -> tuple[object, ...]:
    shape = tuple(one.shape)
    known = getattr(one, "is_cpu", True) and 0 not in shape and str(getattr(one, "layout", "")) in ("", "torch.strided")
    between = [(at,) for at in _spread(*shape)] if len(shape) == 1 else []
    places = [*between, (0,) * len(shape), (-1,) * len(shape)] if known else []
    return shape, str(one.dtype), *(repr(one[at].item()) for at in places)


def _spread(length: int) -> Iterable[int]:
    """Some places of so many, without a period: parts of one data set may begin and end alike, and come at a stride."""
    return range(length) if length <= _MOST else [int(each * _GOLDEN % 1.0 * length) for each in range(_MOST)]


def _arrays() -> tuple[type, ...]:
    """The plain array types of what the script has imported. No subclass: its code would run."""
    found = [getattr(sys.modules.get(name), kind, None) for name, kind in (("numpy", "ndarray"), ("torch", "Tensor"))]
    return tuple(one for one in found if one is not None)


def _datasets() -> tuple[type, ...]:
    found = getattr(sys.modules.get("torch.utils.data"), "Dataset", None)
    return () if found is None else (found,)
