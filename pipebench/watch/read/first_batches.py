"""Says what workers do anew in their first batch, as to read a table that the dataset reads when first asked. Pure.

A loader that starts workers for each pass pays for it in each. The first two batches of a process have lines of their
own: what the first one took more, by row.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from pipebench.watch.read.gather import Process, Run
from pipebench.watch.record.exclusive_time import REST
from pipebench.watch.record.lines import FetchSums

_FEWEST = 4  # processes, in two passes or more
_MOST_ROWS = 0.5  # of what is more: a row that is named
_TIMES = 3  # as long as the second one, in all of them
_NS = 1e-9


class FirstBatch(NamedTuple):
    """A worker's first batch took `more_s` longer than its second one, the `share` of it in a row."""

    more_s: float
    name: str
    kind: str
    share: float


def first_batches(run: Run, loader: int) -> FirstBatch | None:
    """None if too few workers are known, or a first batch is not long in each, or no row has most of that."""
    found = [told for process in run.workers_of(loader) if (told := _of_worker(process)) is not None]
    if len(found) < _FEWEST or any(more <= 0 for more, _ in found):
        return None
    rows: Counter[tuple[str, str]] = Counter()
    for _, own in found:
        rows.update(own)
    whole = sum(more for more, _ in found)
    ((name, kind), spent) = max(rows.items(), key=lambda one: one[1])
    if spent < _MOST_ROWS * whole:
        return None
    return FirstBatch(whole * _NS / len(found), name, kind, min(1.0, spent / whole))


def _of_worker(process: Process) -> tuple[int, Counter[tuple[str, str]]] | None:
    """The nanoseconds that its first batch took more than its second one, in all and by row; 0 if that is little."""
    lines = process.of(FetchSums)[:2]
    if len(lines) < 2 or any(one.batches != 1 for one in lines):
        return None
    first, second = lines
    rows: Counter[tuple[str, str]] = Counter()
    for number, spent in first.stages_ns.items():
        if number != REST:
            stage = process.stage(number)
            rows[stage.name, stage.kind] += spent - second.stages_ns.get(number, 0)
    more = first.busy_ns - second.busy_ns
    return (more if first.busy_ns >= _TIMES * second.busy_ns else 0), rows
