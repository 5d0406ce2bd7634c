"""Tells how long a loop was inside torch's compiler, and whether that went on after its first iterations. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from pipebench.watch.read.gather import Run

_FIRST = 5  # iterations: what is compiled in these is compiled once
_SEVERAL = 4  # of the later ones: in fewer, as for a last batch that is smaller, it is compiled once, too
_FEWEST = 10  # looks


@dataclass(frozen=True)
class Compiled:
    """The time in the compiler, before a backward (`forward_s`) or at all, and after the first iterations (`later_s`).

    Looks met it in `turns` iterations or more. `goes_on`: in several after the first ones. `graphs` is how many torch
    has compiled in loops, 0 if it does not say.
    """

    s: float = 0.0
    forward_s: float = 0.0
    later_s: float = 0.0
    turns: int = 0
    graphs: int = 0
    goes_on: bool = False


def compiled(run: Run, loader: int) -> Compiled:
    """What looks at the loop of a loader say; all is 0 if too few of them met the compiler."""
    lines = [(one.turns, one.compiling) for one in run.looks(loader)]
    if sum(one.looks for _, one in lines) < _FEWEST:
        return Compiled()
    begun = later_ns = later = 0
    for turns, one in lines:
        if begun >= _FIRST or one.turns > _FIRST:
            later_ns += one.forward_ns + one.other_ns
            later += one.turns
        begun += turns
    found = [one for _, one in lines]
    forward_ns, other_ns = sum(one.forward_ns for one in found), sum(one.other_ns for one in found)
    graphs = max(one.graphs for one in found)
    turns = sum(one.turns for one in found)
    return Compiled((forward_ns + other_ns) / 1e9, forward_ns / 1e9, later_ns / 1e9, turns, graphs, later >= _SEVERAL)
