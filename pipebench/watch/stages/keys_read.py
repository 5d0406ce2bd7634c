"""Tells which keys a function asks of the dict that it gets, from its code."""

from __future__ import annotations

import dis
import functools
import inspect
import re
import types
from collections.abc import Iterator
from typing import Any

_SEES_ALL = frozenset({"locals", "vars", "eval", "exec"})
_LOCAL = re.compile("(LOAD|STORE|DELETE)_FAST")
_PASSED_OVER = ("EXTENDED_ARG", "CACHE", "NOP")


def keys_read(function: Any) -> frozenset[str] | None:
    """The keys that a function asks of its first argument; None if it may look at others, or if that is not known.

    The argument must stand in its code only as in `sample["jpg"]`, `sample.get("jpg")` and `"jpg" in sample`. The last
    asks for no value.
    """
    code, name = _first_argument(function)
    if code is None or name in code.co_cellvars or not _SEES_ALL.isdisjoint(code.co_names):
        return None
    steps = [*_steps(code), ("", None), ("", None)]
    asked: set[str] = set()
    for at, (does, what) in enumerate(steps):
        if what != name or does not in ("LOAD", "STORE", "DELETE"):
            continue
        (first, key), (second, last) = steps[at + 1 : at + 3]
        if does == "LOAD" and first == "const" and second == "[]" and isinstance(key, str):
            asked.add(key)
        elif does == "LOAD" and first == "get" and second == "const" and isinstance(last, str):
            asked.add(last)
        elif does != "LOAD" or first != "in":
            return None
    return frozenset(asked)


def _first_argument(function: Any) -> tuple[types.CodeType | None, str]:
    """The code of a function, and the name of what it gets: the first argument that nothing has bound."""
    bound = 0
    while isinstance(function, functools.partial):
        bound, function = bound + len(function.args), function.func
    if not isinstance(function, (types.FunctionType, types.MethodType, type)):
        bound, function = bound + 1, inspect.getattr_static(type(function), "__call__", None)
    if isinstance(function, types.MethodType):
        bound, function = bound + 1, function.__func__
    if not isinstance(function, types.FunctionType) or bound >= function.__code__.co_argcount:
        return None, ""
    return function.__code__, function.__code__.co_varnames[bound]


def _steps(code: types.CodeType) -> Iterator[tuple[str, Any]]:
    """What each instruction does, and with what. Later versions of Python handle two local names in one instruction."""
    for one in dis.get_instructions(code):
        if does := _LOCAL.findall(one.opname):
            yield from zip(does, one.argval if isinstance(one.argval, tuple) else (one.argval,), strict=False)
        elif one.opname.startswith("LOAD_CONST"):
            yield "const", one.argval
        elif one.opname == "BINARY_SUBSCR" or (one.opname == "BINARY_OP" and one.argrepr == "[]"):
            yield "[]", None
        elif one.opname == "CONTAINS_OP":
            yield "in", None
        elif one.opname in ("LOAD_ATTR", "LOAD_METHOD") and one.argval == "get":
            yield "get", None
        elif one.opname not in _PASSED_OVER:
            yield "", None
