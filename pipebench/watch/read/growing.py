"""Tells phases of a loop that take longer and longer, as where it keeps a graph or a list that grows. Pure.

The means of an iteration are compared over tenths of the loop. What a schedule changes comes in steps: between them are
tenths that take as long as the one before.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from pipebench.watch.read.gather import Run
from pipebench.watch.read.like_a_device import follows
from pipebench.watch.record.lines import LoopSums
from pipebench.watch.record.record_file import BACKWARD, FORWARD, OPTIMISER, OTHER

_PARTS = 10
_FIRST, _EARLY, _LATE = 2, slice(2, 4), slice(8, 10)  # the second fifth and the last one: the first one is start-up
_FEWEST = 100  # iterations
_LEAST = 1.3  # times as long in the last fifth as in the second one
_STEADY = 0.25  # of the mean growth from tenth to tenth: what each of them must have
_SCATTER = 1  # tenth that may have less
_ALIKE = 0.5  # of the growth: if no phase of the loop grows less than that, it is the machine that got slower
_OF_SIZE = 2  # work grows with the square of a sample's length at most, as attention
_SMALL = 0.01  # of an iteration: smaller phases scatter
PHASES = {"forward": FORWARD, "before-backward": FORWARD, "backward": BACKWARD, "optimiser": OPTIMISER, "other": OTHER}
_CPU = -1


class Grown(NamedTuple):
    """What an iteration takes of a phase in the second fifth of a loop and in the last one; the whole time above that.

    All are without waits for a core. `sizes_known`: larger batches do not explain it. Else, nobody knows.
    """

    phase: int
    early_s: float
    late_s: float
    more_s: float
    sizes_known: bool


class _Part(NamedTuple):
    """Some iterations, and the nanoseconds of one: each phase, without waits for a core, and then the CPU time."""

    begin: int
    turns: int
    spent_ns: Sequence[float]


def grown(run: Run) -> dict[int, Grown]:
    """Of each loop that has one, the phase that takes longer and longer."""
    found = {one: _of_loop(run, one) for one in run.loaders}
    return {one: phase for one, phase in found.items() if phase is not None}


def grown_in_passes(run: Run, loader: int) -> Grown | None:
    """The other work of a loop, if it takes longer and longer through each pass, as on a list that each pass empties.

    None: it does not, or there is one pass only.
    """
    turns = run.turns(loader)
    several = len({one.number_of_pass for one in turns}) > 1
    parts = _parts(turns, in_passes=True) if several else []
    return _of_phase(parts, OTHER, None) if parts else None


def _of_loop(run: Run, loader: int) -> Grown | None:
    """The phase of a loop that takes longer and longer and costs most by it. None: there is none.

    What larger batches or waits for a core explain is left out, and so is what comes without more CPU time, or in all
    phases alike: then other processes or a hot processor make the loop slower.
    """
    parts = _parts(run.turns(loader)) if any(loader == trains for trains, _ in run.trained_places) else []
    if not parts:
        return None
    larger = _larger(run, loader, parts)
    found = [one for phase in sorted({*PHASES.values()}) if (one := _of_phase(parts, phase, larger)) is not None]
    return max(found, key=lambda one: one.more_s, default=None)


def _parts(turns: Sequence[LoopSums], *, in_passes: bool = False) -> list[_Part]:
    """Tenths of the iterations, without the first one of each pass; or the same tenth of each pass together.

    Empty if there are too few.
    """
    lines = [
        (one, [*one.phases_ns, one.process_cpu_ns - before.process_cpu_ns, one.core_wait_ns - before.core_wait_ns])
        for before, one in itertools.pairwise(turns)
        if follows(before, one) and one.turns and not one.beside
    ]
    total, at = sum(one.turns for one, _ in lines), 0
    ends = {one.number_of_pass: one.first + one.turns for one, _ in lines}
    found = defaultdict[int, list[tuple[LoopSums, list[int]]]](list)
    for one, spent in lines:
        begin, whole = (one.first, ends[one.number_of_pass]) if in_passes else (at, total)
        found[int(_PARTS * (begin + one.turns / 2) / whole)].append((one, spent))
        at += one.turns
    if total < _FEWEST or len(found) < _PARTS:
        return []
    return [_part(found[number]) for number in range(_PARTS)]


def _part(lines: Sequence[tuple[LoopSums, list[int]]]) -> _Part:
    """A tenth of the iterations. What the thread waited for a core is taken off all phases alike, but the wait."""
    turns = sum(one.turns for one, _ in lines)
    wait, *phases, cpu, waited = (sum(of) / turns for of in zip(*(spent for _, spent in lines), strict=True))
    on_core = 1 - min(1.0, waited / (sum(phases) or 1.0))
    return _Part(lines[0][0].begin, turns, [wait, *(one * on_core for one in phases), cpu])


def _of_phase(parts: Sequence[_Part], phase: int, larger: float | None) -> Grown | None:
    early, late = _fifths(parts, phase)
    cpu, more_cpu = _fifths(parts, _CPU)
    least = _LEAST * max(1.0, larger or 1.0) ** _OF_SIZE
    grows = early + min(late - early, more_cpu - cpu) >= least * early > 0
    if not grows or not _steady([one.spent_ns[phase] for one in parts[_FIRST:]]):
        return None
    if _least_growth(parts, phase) >= _ALIKE * (late / early - 1):
        return None
    more = sum(max(0.0, one.spent_ns[phase] - early) * one.turns for one in parts[_EARLY.stop :])
    return Grown(phase, early * 1e-9, late * 1e-9, more * 1e-9, larger is not None)


def _steady(spent: Sequence[float]) -> bool:
    """Whether tenths grow one after the other, but for one that scatters. Three steps leave three that do not grow."""
    least = _STEADY * (spent[-1] - spent[0]) / (len(spent) - 1)
    each, over_two = ([after - before for before, after in zip(spent, spent[n:], strict=False)] for n in (1, 2))
    return sum(one < least for one in each) <= _SCATTER and min(over_two) >= least


def _fifths(parts: Sequence[_Part], column: int) -> tuple[float, float]:
    early, late = (fmean(one.spent_ns[column] for one in parts[fifth]) for fifth in (_EARLY, _LATE))
    return early, late


def _least_growth(parts: Sequence[_Part], phase: int) -> float:
    """By how much the phase grows that does so least, of the others that are not small: 0.3 for 1.3 times as long."""
    each = {one: _fifths(parts, one) for one in {*PHASES.values()}}
    whole = sum(early for early, _ in each.values())
    others = [late / early - 1 for one, (early, late) in each.items() if one != phase and early >= _SMALL * whole]
    return min(others, default=0.0)


def _larger(run: Run, loader: int, parts: Sequence[_Part]) -> float | None:
    """How many times as large a batch is in the last fifth as in the second one; None: not known."""
    ends = [*(one.begin for one in parts), math.inf]
    early, late = (_sizes(run, loader, ends[fifth.start], ends[fifth.stop]) for fifth in (_EARLY, _LATE))
    samples, *sizes = (after / before if before and after else None for before, after in zip(early, late, strict=True))
    known = [one for one in sizes if one is not None]
    return max([*known, samples or 1.0]) if known else None


def _sizes(run: Run, loader: int, begin: float, end: float) -> list[float]:
    """What a batch that is made in this time has on average: samples, columns, frames, seconds of sound and bytes.

    0: not known.
    """
    sums = [one for _, one in run.sums(loader) if begin <= one.begin < end]
    handed, looked = [one for line in sums for one in line.handed], [one.content for one in sums]
    each = max(1, sum(one.batches for one in looked))
    return [
        sum(one.samples for one in sums) / max(1, sum(one.batches for one in sums)),
        sum(one.columns for one in looked) / each,
        sum(one.frames for one in looked) / each,
        sum(one.seconds for one in looked) / each,
        sum(one.pipe_bytes + one.shared_bytes + one.array_bytes for one in handed) / max(1, len(handed)),
    ]
