"""Which loaders share the loop of a training: they are iterated in step, or one around the other. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Mapping

from pipebench.watch.read.gather import Process, Run
from pipebench.watch.record.lines import LoadersTogether, LoopSums, PassBegun
from pipebench.watch.record.spent import ROWS, TimeSpent

Place = tuple[int, int]
"""A loader's number, and the number of a pass over it."""

_OF_TRAINING = (ROWS.index("backward"), ROWS.index("optimiser"))


def trained_places(run: Run) -> set[Place]:
    """The passes in which a backward pass or an optimiser's step ran. Of a loop that was left, only the time tells."""
    found: set[Place] = set()
    for process in run.of_script():
        found |= {(one.loader, one.number_of_pass) for one in process.of(LoopSums) if one.trained}
        passes = (one for line in process.of(TimeSpent) for one in line.passes)
        found |= {(one.loader, one.number_of_pass) for one in passes if any(one.spent_ns[row] for row in _OF_TRAINING)}
    return found


def around(run: Run) -> set[tuple[Place, Place]]:
    """Each pass that does not train and goes on after the begin of one that does, and this one: a loop around it.

    Both are in the main thread: what another thread iterates meanwhile is around nothing. Neither is an iterator that
    is held meanwhile, as one that is asked once before training and used up after it: a loop around others has a pass
    that trains in at least half of its iterations.
    """
    trained, found = trained_places(run), set()
    for process in run.of_script():
        begun = {(one.loader, one.number): one.begin for one in process.of(PassBegun)}
        lines = [one for one in process.of(LoopSums) if not one.beside]
        last = {(one.loader, one.number_of_pass): one.begin for one in lines}
        turns = Counter[Place]()
        for one in lines:
            turns[one.loader, one.number_of_pass] += one.turns
        inner = sorted((begun[place], place) for place in trained & set(begun) & set(last))
        apart = {frozenset(pair) for pair in in_step(process)}  # an iterator that is asked within the other's loop
        for outer in set(last) & set(begun) - trained:
            first, end = bisect_left(inner, (begun[outer] + 1,)), bisect_left(inner, (last[outer],))
            places = {place for _, place in inner[first:end] if place[0] != outer[0]}
            if 2 * len(places) < turns[outer]:
                continue
            found |= {(outer, one) for one in places if frozenset((outer[0], one[0])) not in apart}
    return found


def sharing(run: Run, loaders: Collection[int]) -> list[set[int]]:
    """These loaders, in sets that share one loop. A loader that shares none is a set of its own."""
    pairs = {pair for process in run.of_script() for pair in in_step(process)}
    pairs |= {(outer[0], inner[0]) for outer, inner in around(run)}
    sets = {one: {one} for one in sorted(loaders)}
    for first, second in pairs:
        if first in sets and second in sets and sets[first] is not sets[second]:
            sets[first] |= sets[second]
            sets.update(dict.fromkeys(sets[first], sets[first]))
    return list({id(one): one for one in sets.values()}.values())


def with_training(run: Run, training: Collection[int], counts: Mapping[int, int]) -> set[int]:
    """The loaders that train, and those that share their loop. `counts` are the iterations of each loader.

    One that is asked now and then, as for validation within the loop, has less than half of the iterations.
    """
    found = set(training) | {outer[0] for outer, inner in around(run) if inner[0] in training}
    pairs = {pair for process in run.of_script() for pair in in_step(process)}
    close = [
        {first, second}
        for first, second in pairs
        if min(counts.get(first, 0), counts.get(second, 0)) * 2 > max(counts.get(first, 0), 1)
    ]
    while more := [one for one in close if one & found and not one <= found]:
        found.update(*more)
    return found & set(counts)


def in_step(process: Process) -> set[tuple[int, int]]:
    """The pairs of loaders that were iterated in step."""
    return {(one.first, one.second) for one in process.of(LoadersTogether) if one.first != one.second}
