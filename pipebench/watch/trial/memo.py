"""Serves a function's first result again and again, so that its work is free. Whoever calls it must not see a change.

A result is kept for each place that calls the function, and for the kinds of its arguments. If somebody changes what he
was given, each later call gets a copy. That is looked for at the first, second, fourth, eighth, ... call.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Hashable
from pathlib import PurePath
from typing import Any

from pipebench.watch.record.from_handlers import forgiving
from pipebench.watch.trial.edits import Refused

NAMES = (float, str, bytes, PurePath, tuple, type(None))
_KEYS = (int, *NAMES)


def is_key(found: Any) -> bool:
    """Whether this tells one call from another, and is the same in each pass: a number, a name, or some of these."""
    if isinstance(found, tuple):
        return bool(found) and all(map(is_key, found))
    return isinstance(found, _KEYS) or (hasattr(found, "__index__") and not getattr(found, "shape", ()))


class Kept:
    """One result. `copies` allows to serve copies; otherwise `Refused` is raised if somebody has changed the result."""

    def __init__(self, result: Any, copies: bool = True) -> None:
        self.given, self.copies = result, copies
        self._pristine = copied(result)
        self._changed = False
        self._served = 0

    @property
    def first(self) -> Any:
        """The result as it was when it was made. It must not be changed."""
        return self._pristine

    @property
    def changed(self) -> bool:
        """Whether somebody has changed the result that was given."""
        return not same(self.given, self._pristine)

    def serve(self) -> Any:
        self._served += 1
        if not self._changed and not self._served & (self._served - 1):
            self._changed = self.changed
            if self._changed and not self.copies:
                raise Refused("changed-in-place")
        return copied(self._pristine) if self._changed else self.given


class Memo:
    """The results of one function, by key."""

    def __init__(self, copies: bool = True) -> None:
        self.copies = copies
        self._kept: dict[Hashable, Kept] = {}

    def serve(self, key: Hashable, plain: Callable[..., Any], args: Any = (), kwargs: Any = None) -> Any:
        """The result that is kept under `key`. The first call makes it: `plain(*args, **kwargs)`."""
        found = self._kept.get(key)
        if found is not None:
            return found.serve()
        result = plain(*args, **(kwargs or {}))
        self._kept[key] = Kept(result, self.copies)
        return result


def of_call(memo: Memo, who: object, plain: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Serves the call that was made two frames above. `who` tells apart objects whose calls are served."""
    for one in (*args, *kwargs.values()):
        settle(one)
    caller = sys._getframe(2)
    kinds = tuple(map(type, args))
    return memo.serve((caller.f_code, caller.f_lasti, who, kinds), plain, args, kwargs)


def settle(found: Any) -> None:
    """Lets a Pillow image decode now if it has not yet: that is work of another stage."""
    if getattr(found, "tile", None) and hasattr(found, "load"):
        found.load()
    elif type(found) in (list, tuple):
        for one in found:
            settle(one)
    elif type(found) is dict:
        for one in found.values():
            settle(one)


def copied(found: Any) -> Any:
    """A copy that shares no data with `found`."""
    return found.copy() if _is_image(found) else copy.deepcopy(found)


def same(one: Any, other: Any) -> bool:
    """Whether two results are equal in every value. What cannot be compared is not."""
    if type(one) is not type(other):
        return _is_image(one) and _is_image(other) and _same_pixels(one, other)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    return _is_image(one) and _same_pixels(one, other) if _is_image(one) else _equal(one, other)


def _equal(one: Any, other: Any) -> bool:
    """Whether two values are equal. What is no number in both is, too."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    with forgiving():  # torch cannot compare tensors of every type, and an object may be of any kind
        if torch is not None and isinstance(one, torch.Tensor):
            return one.dtype == other.dtype and (bool(torch.equal(one, other)) or _equal_but_nan(one, other))
        if numpy is not None and isinstance(one, numpy.ndarray):
            nan = one.dtype.kind in "fc"
            return one.dtype == other.dtype and bool(numpy.array_equal(one, other, equal_nan=nan))
        return bool(one == other or (isinstance(one, float) and one != one and other != other))
    return False


def _equal_but_nan(one: Any, other: Any) -> bool:
    if one.shape != other.shape or not one.is_floating_point():
        return False
    return bool(alike(one, other).all())


def alike(one: Any, other: Any) -> Any:
    """At which places two tensors of floats are equal. What is no number in both is, too."""
    return (one == other) | (one.isnan() & other.isnan())


def _is_image(found: Any) -> bool:
    image = getattr(sys.modules.get("PIL.Image"), "Image", None)
    return image is not None and isinstance(found, image)


def _same_pixels(one: Any, other: Any) -> bool:
    return one.mode == other.mode and one.size == other.size and bool(one.tobytes() == other.tobytes())
