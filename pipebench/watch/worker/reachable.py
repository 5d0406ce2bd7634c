"""Which open files and connections a dataset can reach: those of objects with a `fileno` that it holds or names."""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from pipebench.watch.record.from_handlers import forgiving
from pipebench.watch.stages.finding_transforms import has_attributes
from pipebench.watch.stages.in_place import own_code

_LEVELS = 5  # a client of a store holds its pool, that a list, that a connection, and this a socket
_MOST, _EACH = 2_000, 50  # objects: of all, and of one container
_NO_HOLDERS = types.ModuleType, type, types.FunctionType, types.BuiltinFunctionType, str, bytes


def descriptors(datasets: Iterable[Any]) -> frozenset[int]:
    """The numbers of what these datasets hold, or what the globals that their functions name hold, some levels deep."""
    found: set[int] = set()
    seen: set[int] = set()
    level = [one for dataset in datasets for one in (dataset, *_globals(type(dataset)))]
    for _ in range(_LEVELS + 1):
        inner: list[Any] = []
        for one in level:
            if id(one) in seen or len(seen) >= _MOST or isinstance(one, _NO_HOLDERS):
                continue
            seen.add(id(one))
            with forgiving():  # objects of any kind
                if hasattr(type(one), "fileno"):
                    found.add(int(one.fileno()))
                inner += _inside(one)
        level = inner  # which lives on: an identity that is seen stays that of its object
    return frozenset(found)


def _inside(one: Any) -> Iterator[Any]:
    if isinstance(one, dict):
        yield from islice(one.values(), _EACH)
    elif isinstance(one, (list, tuple, set, frozenset)):
        yield from islice(one, _EACH)
    elif has_attributes(one):
        yield from list(vars(one).values())


def _globals(kind: type) -> Iterator[Any]:
    """The global variables that the functions of a class name."""
    for base in kind.__mro__[:-1]:
        for one in list(vars(base).values()):
            if isinstance(one, types.FunctionType):
                yield from (one.__globals__[name] for name in own_code(one).co_names if name in one.__globals__)
