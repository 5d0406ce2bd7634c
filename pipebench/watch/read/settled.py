"""The iterations that tell how a loop goes on, without those of its start. Pure.

The very first iteration is start-up: libraries set themselves up in it. New workers make their first batches beside
each other, while the loop waits for the first one of all. So the loop finds these ready, however slow the workers are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pipebench.watch.read.described import again
from pipebench.watch.read.gather import Run, loaders_found
from pipebench.watch.read.together import sharing
from pipebench.watch.record.lines import LoaderFound, LoopSums
from pipebench.watch.record.record_file import WAIT


class Settled(NamedTuple):
    """The lines of a loader's settled iterations. Each of these is `weight` of an iteration of the loop that is shown.

    The weights of all make one iteration: of loaders in step, one of each; of loops after each other, their mean.
    """

    lines: list[LoopSums]
    weight: float


def count(turns: Iterable[LoopSums]) -> int:
    """How many iterations these lines hold."""
    return sum(one.turns for one in turns)


def step_ns(one: LoopSums) -> int:
    """The nanoseconds of these iterations besides their waits."""
    return sum(one.phases_ns) - one.phases_ns[WAIT]


def iterations(run: Run, lines: Mapping[int, Sequence[LoopSums]]) -> int:
    """How many iterations there were. Loaders that share a loop share them; those of other loaders are added."""
    return sum(max(count(lines[one]) for one in together) for together in sharing(run, lines))


def without_first(turns: list[LoopSums]) -> list[LoopSums]:
    """The lines without the very first iteration, if there are others."""
    later = [one for one in turns if one.number_of_pass or one.first]
    return later if count(later) else turns


def settled(run: Run, loaders: Iterable[int]) -> dict[int, Settled]:
    """The settled iterations of each of these loaders. Where one has none, those that share its loop have none either.

    A loop around others takes few batches: only its very first iteration is left out.
    """
    described, around = loaders_found(run.processes), {outer[0] for outer, _ in run.around}
    found: dict[int, list[LoopSums]] = {}
    for together in sharing(run, set(loaders)):
        own = {
            one: without_first(run.turns(one)) if one in around else _settled(run, one, described.get(one))
            for one in sorted(together)
        }
        found |= own if all(map(count, own.values())) else {}
    return _weighted(run, found)


def seen(run: Run, loaders: Iterable[int]) -> dict[int, Settled]:
    """The same of all iterations that are shown."""
    return _weighted(run, {one: lines for one in loaders if count(lines := run.turns(one))})


def _weighted(run: Run, found: Mapping[int, list[LoopSums]]) -> dict[int, Settled]:
    whole = iterations(run, {one: run.turns(one) for one in found})
    return {one: Settled(lines, count(run.turns(one)) / count(lines) / whole) for one, lines in found.items()}


def _settled(run: Run, loader: int, described: LoaderFound | None) -> list[LoopSums]:
    """The lines without the first batch of each worker, in each pass that starts workers.

    A line of many iterations, as in later passes, is left out if half of them or more are such.
    """
    turns = without_first(run.turns(loader))
    if described is None or not described.workers:
        return turns
    once = described.persistent and not again(run, loader)
    return [one for one in turns if (once and one.number_of_pass) or one.first + one.turns / 2 > described.workers]
