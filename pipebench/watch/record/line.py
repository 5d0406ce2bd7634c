"""What every kind of line is: a dataclass. What compares and shows one is the same for all kinds.

`dataclass` would compile that for each of them, in every process that is watched.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TypeVar, dataclass_transform

Kind = TypeVar("Kind")


@dataclass_transform(field_specifiers=(field,))
def line(kind: type[Kind]) -> type[Kind]:
    """Makes a class the dataclass of a kind of line."""
    made = dataclass(eq=False, repr=False)(kind)
    for name, one in (("__eq__", _equal), ("__repr__", _shown), ("__hash__", None)):
        setattr(made, name, one)
    return made


def _equal(one: object, other: object) -> object:
    return vars(one) == vars(other) if type(one) is type(other) else NotImplemented


def _shown(one: object) -> str:
    inside = ", ".join(f"{each.name}={getattr(one, each.name)!r}" for each in fields(one))  # type: ignore[arg-type]
    return f"{type(one).__qualname__}({inside})"
