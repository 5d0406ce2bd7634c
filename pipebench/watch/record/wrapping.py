"""Finds the function that a library's object wraps: fastai makes a `Transform` of each function of its user.

The function is looked for in what the object holds, so no code of the script runs.
"""

from __future__ import annotations

import functools
import types
from typing import Any, NamedTuple

from pipebench.watch.record.own_code import plain_name, users_function

_DEEPEST = 6  # fastcore's older `TypeDispatch` holds its functions by the types of two arguments
_MOST = 8  # of what one object holds
_LONGEST = 200  # characters of a name
_BY_FASTAI = "wrapped_enc"  # its function around what has no name, such as a partial


class Wrapped(NamedTuple):
    """A function by the name of its row, and whether the user has written it."""

    name: str
    own: bool


def wrapped_function(one: Any) -> Wrapped | None:
    """The function that an object of fastai's `Transform` or of a class of its library is made of; else None."""
    held = vars(one) if hasattr(one, "__dict__") else {}
    name, encodes = held.get("_name"), held.get("encodes")
    if type(name) is not str or encodes is None:
        return None
    functions = _functions(encodes, _DEEPEST)
    named = [inner for inner in functions if name in (getattr(inner, key, "") for key in ("__qualname__", "__name__"))]
    found = next(iter(named), None)
    inner = _within(found)
    if inner is not found:
        name = str(getattr(inner, "__qualname__", None) or type(inner).__name__)
    return Wrapped(plain_name(name)[:_LONGEST], inner is not None and users_function(inner))


def _functions(one: Any, depth: int) -> list[Any]:
    """The functions and methods that an object holds, also in dictionaries and in objects of its library."""
    if isinstance(one, (types.FunctionType, types.MethodType)):
        return [one]
    if type(one).__module__.split(".")[0] == "plum":  # it may be compiled, and then has no `__dict__`
        return _functions(getattr(one, "_f", None), depth - 1) if depth else []
    held = one if isinstance(one, dict) else vars(one) if hasattr(one, "__dict__") and depth else {}
    if not depth or isinstance(one, type):
        return []
    return [found for inner in [*held.values()][:_MOST] for found in _functions(inner, depth - 1)]


def _within(function: Any) -> Any:
    """What has no name of its own, inside fastai's function around it; else the function itself."""
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None)
    if code is None or not cells or not code.co_qualname.endswith(_BY_FASTAI):
        return function
    held = dict(zip(code.co_freevars, cells, strict=True)).get("f")
    found = held.cell_contents if held is not None else function
    while isinstance(found, functools.partial):
        found = found.func
    return found
