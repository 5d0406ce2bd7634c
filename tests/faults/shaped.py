"""JSON that fits a class's shape and has extreme values, for tests that look for what no run writes."""

import dataclasses
import typing
from types import NoneType, UnionType

from hypothesis import strategies

NUMBERS = [0, 1, -1, 2, 7, 10**3, 10**6, 2**31, 2**63 - 1]
FIGURES = [0.0, -0.0, 1.0, 0.5, -2.5, 1e-29, 1e-6, 1e6, 1e18]
IMPOSSIBLE = [5e-324, 1e-300, 1e100, 1e308, 2**64, 2**70]  # a report with one of them is refused as it is loaded
TEXTS = ["", "a", "x" * 3000, "\x1b[31m", "../../etc", "%s {0} <b>", "\u202e", "1e400", "nan"]


def shaped(hint, depth=0):
    """A strategy of plain values of the shape of a type. Deep inside, lists are short and what may be absent is."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint) or hasattr(hint, "_fields"):
        return _of_fields(hint, depth)
    if origin in (typing.Union, UnionType):
        kinds = [one for one in inner if one is not NoneType]
        absent = [strategies.none()] if NoneType in inner else []
        return strategies.one_of(*absent, *(shaped(one, depth) for one in kinds))
    if origin is typing.Literal:
        return strategies.sampled_from(inner)
    if origin in (tuple, list) or hint in (tuple, list):
        return _listed(origin or hint, inner, depth)
    if origin is dict:
        return strategies.dictionaries(shaped(inner[0]), shaped(inner[1], depth + 1), max_size=3)
    plain = {
        bool: strategies.booleans(),
        int: strategies.sampled_from(NUMBERS),
        float: strategies.sampled_from([*FIGURES, *NUMBERS[:5]]),
        str: strategies.sampled_from(TEXTS),
        NoneType: strategies.none(),
    }
    return plain.get(hint, strategies.none())


def _listed(kind, inner, depth):
    if kind is tuple and inner and Ellipsis not in inner:
        return strategies.tuples(*(shaped(one, depth + 1) for one in inner)).map(list)
    return strategies.lists(shaped(inner[0], depth + 1) if inner else strategies.none(), max_size=1 if depth > 2 else 2)


def _of_fields(kind, depth):
    hints = typing.get_type_hints(kind)
    if hasattr(kind, "_fields"):
        return strategies.tuples(*(shaped(hints[one], depth + 1) for one in kind._fields)).map(list)
    fields = {one.name: strategies.deferred(lambda one=one: shaped(hints[one.name], depth + 1)) for one in _init(kind)}
    optional = {one.name for one in _init(kind) if _has_default(one)}
    needed = {name: made for name, made in fields.items() if name not in optional}
    return strategies.fixed_dictionaries(needed, optional={name: fields[name] for name in optional})


def _init(kind):
    return [one for one in dataclasses.fields(kind) if one.init]


def _has_default(field):
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def at_most(count):
    """Settings of a property: always the same examples, however long each takes."""
    from hypothesis import HealthCheck, Phase, settings

    return settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],  # a failure is shown as it was found: to shrink one takes minutes
    )
