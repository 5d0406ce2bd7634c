"""Tells Python loops over small operations of torch between a batch and its backward, as over the steps of a sequence.

Each operation then takes longer to call than to compute, and so does its backward. Looks at the loop's stack find the
lines, and the lines that were counted in some iterations say how often they run. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from pipebench.results.account import Cause
from pipebench.watch.read.gather import Run
from pipebench.watch.read.in_loop import enough
from pipebench.watch.read.line_runs import Place, counts_of
from pipebench.watch.read.of_causes import Seen
from pipebench.watch.read.own_lines import alone, in_python
from pipebench.watch.read.prepared import looks_at_forward

_MANY = 64  # runs of a line in an iteration
_SMALL_S = 250e-6  # of one turn, with all its lines: a call of torch with its gradient takes some 10 µs
_LARGE = 0.15  # of the loops
_LEAST = 10  # looks


class Steps(NamedTuple):
    """A function with lines that run so often in an iteration, the first and the last of them, and their looks."""

    file: str
    function: str
    first: int
    last: int
    times: int
    looks: int
    share: float


def small_steps(run: Run, loader: int) -> Steps | None:
    """The function with most looks at such lines, with the share of forward of all of them; None without enough."""
    lines = run.looks(loader)
    looks = looks_at_forward(lines)
    if not enough(lines, looks):
        return None
    counted = counts_of(run, loader)
    counts = counted.of["iteration"]
    found = [one for line in lines for one in line.forward_lines if not counted.only_python(one.file, one.line)]
    runs = {one: counts.get(Place(one.file, one.line)) for one in found}
    small = [one for one in found if (its := runs[one]) and its.times >= _MANY and its.each_s <= _SMALL_S]
    functions = Counter[tuple[str, str]]()
    for one in small:
        functions[one.file, one.function] += one.looks
    for (file, function), _ in functions.most_common(1):
        own = [one for one in small if (one.file, one.function) == (file, function)]
        most = max(its.times for one in own if (its := runs[one]))
        at, whole = [one.line for one in own], sum(one.looks for one in small)
        return Steps(file, function, min(at), max(at), most, whole, min(1.0, whole / looks))
    return None


def many_operations(seen: Seen) -> Iterable[Cause]:
    """Loops over small operations. The backward has as many, so the same share of it counts."""
    told = {one.loader: one.s for one in in_python(seen)}
    for one in seen.in_loop:
        if not alone(seen, one.loader) or seen.s("spans", loader=one.loader):
            continue
        found = small_steps(seen.run, one.loader)
        if found is None or found.looks < _LEAST:
            continue
        forward_s = seen.forward_s(one.loader)
        whole_s = forward_s + seen.s("backward", loader=one.loader)
        told_s = told.get(one.loader, 0.0)
        if not seen.matters(whole_s, found.share, found.looks, _LARGE) or told_s >= found.share * forward_s / 2:
            continue
        spent = found.share * whole_s
        values: dict[str, str | int | float] = {"function": found.function} if found.function else {}
        values |= {"file": found.file, "line": found.first, "last": found.last, "times": found.times}
        yield Cause("many-operations", spent, spent, one.loader, values)
