"""Finds iterations that take far longer than others besides their wait, as one that compiles or saves. Pure.

Workers make a few batches ahead meanwhile, and then rest: that says nothing about what the loop waits for otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pipebench.results.watched import Note
from pipebench.watch.read.compiling import compiled
from pipebench.watch.read.gather import Run, loaders_found
from pipebench.watch.read.settled import step_ns
from pipebench.watch.record.lines import FetchSums, LoopSums
from pipebench.watch.record.record_file import PHASES, WAIT

_LONG = 5  # times the median
_FEWEST = 8  # iterations: of fewer, nobody knows what is usual
_RARE = 3  # lines of such iterations: what comes more often is work of the loop, which has its place
_LEAST_NS = 500_000_000
_LARGE = 0.1  # of what all iterations take besides their waits


class Pause(NamedTuple):
    """A loop took no batch for longer than usual, until `end`. For `ns` of that, its workers had no more room."""

    end: int
    ns: float


def pauses(run: Run, loader: int) -> list[Pause]:
    """The pauses of all passes over a loader with workers. Of a line of several iterations, they are one."""
    lines = [one for one in run.of_loader(LoopSums, loader) if one.turns]
    usual = _usual_ns(lines)
    if usual is None:
        return []
    ahead, found = _ahead_ns(run, loader), []
    for one in lines:
        spent = step_ns(one)
        longer = spent - one.turns * usual
        if spent > _LONG * one.turns * usual and longer > ahead:
            found.append(Pause(one.begin + sum(one.phases_ns), longer - ahead))
    return sorted(found)


def pause_notes(run: Run, loaders: Iterable[int]) -> Iterator[Note]:
    """Notes that a few iterations of a loop take a large part of it besides their waits, with the largest phase.

    And that torch's compiler was at work in a few.

    The very first one is none of them: in it, libraries set themselves up. It is named beside them.
    """
    for loader in loaders:
        compiler = compiled(run, loader)
        if compiler.s * 1e9 >= _LEAST_NS and not compiler.goes_on:
            yield Note("compiled-once", {"loader": loader, "s": compiler.s})
        lines = [one for one in run.turns(loader) if one.turns and (one.first or one.number_of_pass)]
        usual = _usual_ns(lines) or 0.0
        large = _LARGE * sum(map(step_ns, lines))
        found = [one for one in lines if usual and step_ns(one) > max(large / _RARE, _LONG * one.turns * usual)]
        spent = sum(step_ns(one) - (one.turns - 1) * usual for one in found)
        if not 0 < len(found) <= _RARE or spent < max(_LEAST_NS, large):
            continue
        phases = [sum(each) for each in zip(*(one.phases_ns for one in found), strict=True)]
        _, largest = max((one, name) for one, name in zip(phases, PHASES, strict=False) if name != PHASES[WAIT])
        values = {"loader": loader, "count": len(found), "s": spent * 1e-9, "usual_s": usual * 1e-9}
        yield Note("long-iterations", {**values, "phase": largest, **_first(run, loader, usual)})


def _first(run: Run, loader: int, usual: float) -> dict[str, float]:
    """How long the very first iteration took besides its wait, if that was long, too."""
    first = next((one for one in run.of_loader(LoopSums, loader) if not (one.first or one.number_of_pass)), None)
    spent = step_ns(first) - (first.turns - 1) * usual if first is not None and first.turns else 0.0
    return {"first_s": spent * 1e-9} if spent >= _LEAST_NS and spent > _LONG * usual else {}


def _usual_ns(lines: Sequence[LoopSums]) -> float | None:
    """The median of what an iteration takes without its wait; None if there are too few."""
    each = sorted((step_ns(one) / one.turns, one.turns) for one in lines)
    whole, seen = sum(one.turns for one in lines), 0
    for spent, turns in each if whole >= _FEWEST else ():
        seen += turns
        if 2 * seen >= whole:
            return spent
    return None


def _ahead_ns(run: Run, loader: int) -> float:
    """How long a worker makes batches until its part of the room for them is full."""
    described = loaders_found(run.processes).get(loader)
    sums = [one for process in run.workers_of(loader) for one in process.of(FetchSums)]
    batches = sum(one.batches for one in sums)
    prefetch = described.prefetch_factor if described is not None else None
    return (prefetch or 0) * sum(one.busy_ns for one in sums) / batches if batches else 0.0
