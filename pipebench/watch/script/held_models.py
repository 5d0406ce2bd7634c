"""Names the neural networks that a dataset holds or its methods use: modules with parameters, unlike transforms.

Only their attributes and types are looked at, so no code of the script runs.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

from pipebench.watch.record.from_handlers import forgiving

_MOST = 200  # objects
_MOST_MODULES = 1000
_WITHOUT = ("builtins", "numpy", "torch", "pandas", "PIL")
_ENTRIES = 20  # of a list or a dict


def held_models(dataset: Any) -> list[str]:
    """The names of the modules that have parameters: the attributes, globals and classes of these and their parts.

    A class that also stands for a module without parameters is left out.
    """
    kind = getattr(sys.modules.get("torch.nn"), "Module", None)
    if kind is None:
        return []
    models: set[str] = set()
    others: set[str] = set()
    for name, module in _modules(dataset, kind):
        parts = list(_parts(module, kind))
        if any(_has_parameters(one) for one in parts):
            models |= {name, *(type(one).__name__ for one in parts)}
        else:
            others |= {name, *(type(one).__name__ for one in parts)}
    return sorted(models - others)


def _modules(dataset: Any, kind: type) -> Iterator[tuple[str, Any]]:
    """Each module that is held, with the name under which it is used."""
    seen: set[int] = set()
    waiting = [dataset]
    while waiting and len(seen) < _MOST:
        holder = waiting.pop(0)
        if id(holder) in seen or issubclass(type(holder), (type, types.ModuleType)):
            continue
        seen.add(id(holder))
        for name, value in (*_attributes(holder), *_globals(type(holder))):
            for one in _entries(value):
                if issubclass(type(one), kind):
                    yield name, one
                elif _may_hold(str(type(one).__module__)):
                    waiting.append(one)


def _may_hold(module: str) -> bool:
    """Whether objects of classes of this module may hold a dataset or a model."""
    return module.startswith("torch.utils.data") or module.split(".")[0] not in _WITHOUT


def _attributes(holder: Any) -> Iterable[tuple[str, Any]]:
    if issubclass(type(holder), functools.partial):  # it makes its own when it is asked, and then pickles otherwise
        return []
    held = None
    with forgiving():  # it has none, or one of its own making
        held = object.__getattribute__(holder, "__dict__")
    return list(held.items()) if isinstance(held, dict) else []


def _globals(kind: type) -> Iterator[tuple[str, Any]]:
    """The globals that the methods of the user's own class name."""
    for method in list(vars(kind).values()):
        if isinstance(method, types.FunctionType):
            for name in method.__code__.co_names:
                if name in method.__globals__:
                    yield name, method.__globals__[name]


def _entries(value: Any) -> list[Any]:
    if type(value) is dict:
        return list(value.values())[:_ENTRIES]
    return list(value[:_ENTRIES]) if type(value) in (list, tuple) else [value]


def _parts(module: Any, kind: type) -> Iterator[Any]:
    """The module and those within, each once."""
    seen: set[int] = set()
    waiting = [module]
    while waiting and len(seen) < _MOST_MODULES:
        one = waiting.pop(0)
        if id(one) not in seen and issubclass(type(one), kind):
            seen.add(id(one))
            yield one
            held = vars(one).get("_modules")
            waiting += list(held.values()) if isinstance(held, dict) else []


def _has_parameters(module: Any) -> bool:
    held = vars(module).get("_parameters")
    return isinstance(held, dict) and any(one is not None for one in held.values())
