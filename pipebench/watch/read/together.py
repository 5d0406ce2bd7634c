"""Which loaders share the loop of a training: they are iterated in step, or one around the other. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pipebench.watch.read.gather import Run, in_step

Pairs = Collection[tuple[int, int]]
"""The numbers of two loaders each, which share a loop."""


def sharing(run: Run, loaders: Collection[int]) -> list[set[int]]:
    """These loaders, in sets that share one loop. A loader that shares none is a set of its own."""
    return sets_of(loaders, in_steps(run) | {(outer[0], inner[0]) for outer, inner in run.around})


def sets_of(loaders: Collection[int], pairs: Pairs) -> list[set[int]]:
    """The same, where these pairs share one."""
    sets = {one: {one} for one in sorted(loaders)}
    for first, second in pairs:
        if first in sets and second in sets and sets[first] is not sets[second]:
            sets[first] |= sets[second]
            sets.update(dict.fromkeys(sets[first], sets[first]))
    return list({id(one): one for one in sets.values()}.values())


def with_training(run: Run, training: Collection[int], counts: Mapping[int, int]) -> set[int]:
    """The loaders that train, and those that share their loop. `counts` are the iterations of each loader."""
    around = {outer[0] for outer, inner in run.around if inner[0] in training}
    return with_those_in_step(around | set(training), in_steps(run), counts)


def with_those_in_step(training: Collection[int], pairs: Pairs, counts: Mapping[int, int]) -> set[int]:
    """The loaders that train, and those in step with them: of these, only the one that is asked last is seen to train.

    One that is asked now and then, as for validation within the loop, has less than half of the iterations.
    """
    found = set(training)
    close = [
        {first, second}
        for first, second in pairs
        if min(counts.get(first, 0), counts.get(second, 0)) * 2 > max(counts.get(first, 0), 1)
    ]
    while more := [one for one in close if one & found and not one <= found]:
        found.update(*more)
    return found & set(counts)


def in_steps(run: Run) -> set[tuple[int, int]]:
    """The pairs of loaders that are iterated in step."""
    return {pair for process in run.of_script() for pair in in_step(process)}
