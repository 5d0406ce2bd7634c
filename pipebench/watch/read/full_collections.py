"""Tells the garbage collections that a training loop asks for, as by `gc.collect()` in each step. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from pipebench.results.account import Cause
from pipebench.watch.read.in_loop import as_values
from pipebench.watch.read.of_causes import Seen
from pipebench.watch.record.trial_lines import FullCollected

CODE = "garbage-collection"


def full_collections(seen: Seen) -> Iterable[Cause]:
    """What they take in the loops that train. Without them, the loops would not take that time."""
    for one in seen.in_loop:
        found = _of_loop(seen, one.loader)
        if not found:
            continue
        spent = sum(line.spent_ns for line in found) / 1e9
        places: Counter[tuple[str, int]] = Counter()
        for line in found:
            places[line.file, line.line] += line.most
        (place, _), *_ = places.most_common(1)
        values: dict[str, str | int | float] = {
            "collections": sum(line.collections for line in found), "batches": seen.batches(one),
            **as_values(*place, "gc.collect"),
        }  # fmt: skip
        yield Cause(CODE, spent, spent, one.loader, values)


def collected_s(seen: Seen) -> float:
    """The seconds of all of them in the loops that train."""
    return sum(line.spent_ns for one in seen.in_loop for line in _of_loop(seen, one.loader)) / 1e9


def _of_loop(seen: Seen, loader: int) -> list[FullCollected]:
    return [line.collected for line in seen.run.looks(loader) if line.collected.collections]
