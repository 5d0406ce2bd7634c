"""Tells Python loops of the user's own code between the model and the backward, as mining of triplets, from forward.

The clock takes all time before a backward for forward. Looks at the loop's stack find these loops. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from pipebench.results.account import Cause
from pipebench.watch.read.gather import Run
from pipebench.watch.read.in_loop import (
    Where,
    as_values,
    by_first_call,
    enough,
    innermost,
    needs_core,
    summed,
    with_neighbours,
)
from pipebench.watch.read.of_causes import Seen
from pipebench.watch.read.prepared import ROW, looks_at_forward
from pipebench.watch.record.lines import LoopSums
from pipebench.watch.record.record_file import WITHOUT_GRADIENTS

_LARGE = 0.15  # of the loops: a loss computes something in Python, too


@dataclass(frozen=True)
class AfterModel:
    """The share of forward that Python loops take, and where most of it is."""

    share: float
    where: Where


def after_model(run: Run, loader: int, spans: Collection[str] = ()) -> AfterModel | None:
    """What looks at the loop of a loader say; None if they found no such loops, or are too few.

    Functions of `spans` have a row of their own, so their looks are not of forward.
    """
    lines = run.looks(loader)
    forward = [one for line in lines for one in line.places if one.early or one.after]
    apart = [one for one in forward if any(name.rpartition(".")[2] in spans for name in one.functions)]
    looks = looks_at_forward(lines) - sum(one.looks for one in apart)
    places = [one for one in forward if one.after and not one.early and one not in apart]
    found = [one for one in with_neighbours(summed(places)) if needs_core(one)]
    if not enough(lines, looks) or not found:
        return None
    most = max(by_first_call(found), key=lambda one: one.looks)
    whole = sum(one.looks for one in found)
    return AfterModel(whole / looks, innermost(most, found, lines, whole))


def python_loops(seen: Seen) -> Iterable[Cause]:
    """Python loops between the model and the backward. What they cost is not known where a device works meanwhile."""
    for one in seen.in_loop:
        told = after_model(seen.run, one.loader, {name.rpartition(".")[2] for name in _spans(seen, one.loader)})
        if told is None:
            continue
        spent = told.share * seen.forward_s(one.loader, ROW)
        if spent < _LARGE * seen.loops_s:
            continue
        values = as_values(*told.where)
        yield Cause("python-loops", spent, None if seen.on_device else spent, one.loader, values)


def spans(seen: Seen) -> Iterable[Cause]:
    """The functions of `--span`, if they take much of the loops: the largest is named."""
    spent = sum((_spans(seen, one.loader) for one in seen.in_loop), Counter[str]())
    whole = sum(seen.s("spans", loader=one.loader) for one in seen.in_loop)
    if spent and whole >= _LARGE * seen.loops_s:
        yield Cause("spans", whole, values={"function": max(spent, key=lambda name: spent[name])})


def _spans(seen: Seen, loader: int) -> Counter[str]:
    """The nanoseconds of each function of `--span` in the loop of a loader."""
    found = Counter[str]()
    for one in seen.run.of_loader(LoopSums, loader):
        for name, ns in one.spans_ns.items():
            found[name.removesuffix(WITHOUT_GRADIENTS)] += ns
    return found
