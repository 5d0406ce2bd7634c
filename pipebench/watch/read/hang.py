"""Tells that the ranks of a training made no step any more before they were ended, and which of them hung. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pipebench.results.programs import Program
from pipebench.results.ranks import Hang, LastStep, Ranks
from pipebench.watch.launch.exits import Exit
from pipebench.watch.read.gather import Process
from pipebench.watch.record import program_lines
from pipebench.watch.record.spent import TimeSpent

_NS = 1e-9
_SHORTEST_S = 5.0
_TIMES = 10  # so many times as long as any step before
_FEWEST = 3  # steps that tell how long one takes
_HALF = 0.5  # of the time since the last step
_TELL_MORE = 100  # steps before a hang that tell which rank the others waited for


def last_step(script: Process, left: Exit | None) -> LastStep | None:
    """When a rank made its last step. If its records have no end, the time since a line was due at the latest."""
    if found := script.of(program_lines.LastStep):
        one = found[-1]
        own_s, outside_s = one.own_ns * _NS, one.outside_ns * _NS
        return LastStep(one.since_ns * _NS, one.longest_ns * _NS, one.made, own_s, outside_s)
    steps = [step for line in script.of(program_lines.OwnSteps) for step in line.steps]
    lines = script.of(TimeSpent)[1:]  # the first one is of the start-up
    if left is None or not lines or len(steps) < _FEWEST or script.moment("end") is not None:
        return None
    longest = max(one.end - one.begin for one in lines)  # a loop that goes on writes one as often
    return LastStep((left.at - lines[-1].end - longest) * _NS, longest * _NS)


def hang_of(ranks: Sequence[Program]) -> Hang | None:
    """How the programs of one training hung; None if one of them reached its end, or if they went on to their ends.

    A rank hung if it spent most of the time since its last step by itself while another one waited for it in backward
    or a collective. Where a rank may wait within its own work, one that is a step behind the others hung.
    """
    known = {one.rank or 0: one.last_step for one in ranks if one.last_step is not None}
    if len(ranks) < 2 or not known or any(one.ended == "ended" for one in ranks):
        return None
    if not all(_much_longer(one) for one in known.values()):
        return None
    found = Hang(min(one.since_s for one in known.values()))
    alone = {rank: one.own_s + one.outside_s for rank, one in known.items() if one.own_s is not None}
    busy = tuple(sorted(rank for rank, s in alone.items() if s >= _HALF * known[rank].since_s))
    waiting = tuple(sorted(alone.keys() - set(busy)))
    outside = bool(busy) and all(known[rank].outside_s >= _HALF * known[rank].since_s for rank in busy)
    if busy and waiting:
        return replace(found, ranks=busy, waiting=waiting, outside=outside)
    if outside and len(busy) == len(ranks):
        return None  # all of them had left their training iterations
    if waiting and (silent := _silent(ranks, waiting)) is not None:
        return replace(found, ranks=(silent,), waiting=waiting)
    made = {known[rank].made for rank in busy}
    if len(busy) == len(ranks) and len(made) > 1:
        return replace(found, ranks=tuple(rank for rank in busy if known[rank].made == min(made)))
    return replace(found, waiting=waiting)


def in_iterations(one: Program) -> bool:
    """Whether a program that failed, or was killed, was in its training iterations then, as far as that is known."""
    last = one.last_step
    return one.ended in ("failed", "cut") and last is not None and last.outside_s < _HALF * last.since_s


def _much_longer(one: LastStep) -> bool:
    """Whether its last step was much longer ago than steps take."""
    if one.own_s is not None and one.made < _FEWEST:
        return False
    return one.since_s >= max(_SHORTEST_S, _TIMES * one.longest_s)


def _silent(ranks: Sequence[Program], waiting: Sequence[int]) -> int | None:
    """The one rank that all others waited for, if it still was there when the first of these ended."""
    rest = [one for one in ranks if one.rank not in waiting]
    if len(rest) != 1 or len(ranks) != rest[0].ranks or rest[0].left_s is None:
        return None
    others = [one.left_s for one in ranks if one.rank in waiting and one.report == rest[0].report]
    if not others or any(one is None or one > rest[0].left_s for one in others):
        return None
    return rest[0].rank


def with_hang(found: Ranks, ranks: Sequence[Program]) -> Ranks:
    """The comparison of these ranks with how they hung. A few steps before that name no rank that costs the others."""
    hang = hang_of(ranks)
    if hang is None or found.steps >= _TELL_MORE:
        return replace(found, hang=hang)
    return replace(
        found, hang=hang, straggler=None, late_in_few=None, part=None, behind_s=0.0, stage=None, longer=None,
        saved_share=0.0, fewer_cores=None, fewer_workers=None, outside_rank=None, outside_s=0.0, outside_share=0.0,
    )  # fmt: skip
