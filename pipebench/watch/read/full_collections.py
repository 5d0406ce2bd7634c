"""Tells full garbage collections in a training loop: `gc.collect()` in each step, or those that Python begins. Pure."""

from __future__ import annotations

import linecache
import re
from collections import Counter
from collections.abc import Iterable

from pipebench.results.account import Cause
from pipebench.watch.read.in_loop import as_values
from pipebench.watch.read.of_causes import Seen
from pipebench.watch.record.trial_lines import BETWEEN

CODE = "garbage-collection"
_COLLECT = re.compile(r"\b(?:gc\s*\.\s*)?collect\s*\(")


def full_collections(seen: Seen) -> Iterable[Cause]:
    """What full collections take in the loops that train. Without them, the loops would not take that time."""
    for one in seen.in_loop:
        found = [line.collected for line in seen.run.looks(one.loader) if line.collected.collections]
        spent = sum(line.spent_ns for line in found) / 1e9
        places: Counter[tuple[str, int]] = Counter()
        for line in found:
            places[line.file, line.line] += line.most
        if not places:
            continue
        (file, number), _ = places.most_common(1)[0]
        asked = bool(_COLLECT.search(linecache.getline(file, number)))
        values: dict[str, str | int | float] = {
            "collections": sum(line.collections for line in found), "batches": seen.batches(one),
            **(as_values(file, number, "gc.collect") if asked else {}),
        }  # fmt: skip
        yield Cause(CODE, spent, spent, one.loader, values)


def collected_s(seen: Seen) -> float:
    """The seconds of all of them between batches of the loops that train."""
    looks = (line for one in seen.in_loop for line in seen.run.looks(one.loader) if line.loader != BETWEEN)
    return sum(line.collected.spent_ns for line in looks) / 1e9
