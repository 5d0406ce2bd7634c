"""Ray's own statistics of operators, as values. Pure, and without Ray: it reads the attributes of its summaries.

Ray has no public structure for these. `Dataset._get_stats_summary` (Ray 2.40 to 2.60) is not public,
`get_stats_summary` (2.60) is for developers and knows no iterator, and the public `Dataset.stats` is a text. So nothing
here is sure to be there: what is missing is a None or a note, and never an error.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pipebench.errors import said_by
from pipebench.results.engine import Operator
from pipebench.units import printable


@dataclass(frozen=True)
class Statistics:
    """The operators of one pass in the order of the data, the seconds its consumer was blocked, and what is lacking.

    `blocked_s` holds the start of the pass, which Ray counts apart.
    """

    operators: tuple[Operator, ...] = ()
    blocked_s: float | None = None
    spilled_bytes: float = 0.0
    notes: tuple[str, ...] = ()


def read(dataset: Any) -> Statistics:
    """The statistics of a Ray Data set that was iterated."""
    ask = getattr(dataset, "_get_stats_summary", None) or getattr(dataset, "get_stats_summary", None)
    if ask is None:
        return Statistics(notes=("this release of Ray has no statistics that pipebench can read",))
    try:
        return of_summary(ask())
    except Exception as error:  # an interface for developers may change with any release
        why = printable(f"{type(error).__name__}: {said_by(error)}")[:200]
        return Statistics(notes=(f"Ray's statistics could not be read: {why}",))


def of_summary(summary: Any) -> Statistics:
    """The statistics in a `DatasetStatsSummary`, its parents included."""
    operators = tuple(_operators(summary))
    iterator = getattr(summary, "iter_stats", None)
    blocked = _seconds(getattr(iterator, "block_time", None)) or None
    if blocked is not None:
        blocked += _seconds(getattr(iterator, "initialize_time", None)) or 0.0
    notes = []
    if not operators:
        notes.append("Ray's statistics have no operator")
    elif all(one.wall_s is None for one in operators):
        notes.append("Ray's statistics have no times of operators")
    if blocked is None:
        notes.append("Ray's statistics do not say how long the loop waited")
    return Statistics(operators, blocked, _number(getattr(summary, "dataset_bytes_spilled", None)) or 0.0, tuple(notes))


def added(passes: Sequence[Statistics]) -> Statistics:
    """The statistics of several passes over the same operators."""
    names = dict.fromkeys(one.name for each in passes for one in each.operators)
    every = [one for each in passes for one in each.operators]
    blocked = [each.blocked_s for each in passes]
    return Statistics(
        tuple(_sum(name, [one for one in every if one.name == name]) for name in names),
        _total(blocked) if blocked else None,
        sum(each.spilled_bytes for each in passes),
        tuple(dict.fromkeys(note for each in passes for note in each.notes)),
    )


def _sum(name: str, found: Sequence[Operator]) -> Operator:
    return Operator(
        name,
        sum(one.rows for one in found),
        _total(one.wall_s for one in found),
        _total(one.cpu_s for one in found),
        _total(one.made_bytes for one in found),
    )


def _total(values: Iterable[float | None]) -> float | None:
    """The sum; None if one of them is not known."""
    total = 0.0
    for one in values:
        if one is None:
            return None
        total += one
    return total


def _operators(summary: Any) -> Iterator[Operator]:
    for parent in getattr(summary, "parents", None) or ():
        yield from _operators(parent)
    for one in getattr(summary, "operators_stats", None) or ():
        yield Operator(
            printable(str(getattr(one, "operator_name", "?")))[:80],
            int(_summed(one, "output_num_rows") or 0),
            _summed(one, "wall_time"),
            _summed(one, "cpu_time"),
            _summed(one, "output_size_bytes"),
        )


def _summed(one: Any, name: str) -> float | None:
    """The field `sum` of a summary: an object in Ray 2.60, a dictionary before."""
    found = getattr(one, name, None)
    return _number(found.get("sum") if isinstance(found, dict) else getattr(found, "sum", None))


def _seconds(timer: Any) -> float | None:
    get = getattr(timer, "get", None)
    return _number(get() if callable(get) else timer)


def _number(found: Any) -> float | None:
    """A number that a run can give, else None."""
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    return float(found) if math.isfinite(found) and found >= 0 else None
