"""Finds which programs train together: those of one command, and those in the reports of several machines. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pipebench.results.programs import Program
from pipebench.results.watched import WatchResult

Job = dict[int, list[Program]]
"""The ranks of one training, by the number of the report that they are in."""


def groups(programs: Sequence[Program]) -> list[list[int]]:
    """The places of the programs that train together. A rank that comes again begins another group."""
    found: list[dict[int, int]] = []
    latest: dict[tuple[int | None, str], dict[int, int]] = {}
    for place, one in enumerate(programs):
        if one.rank is not None:
            group = latest.get((one.ranks, one.meeting))
            if group is None or one.rank in group:
                group = latest[one.ranks, one.meeting] = {}
                found.append(group)
            group[one.rank] = place
    return [[group[rank] for rank in sorted(group)] for group in found]


def jobs(reports: Sequence[Sequence[Program]]) -> list[Job]:
    """The trainings on several ranks that these reports are of. Each report has its programs in their order of begin.

    Ranks belong together if they met at the same place. Of the rest, the order in the reports tells it: machines may
    name one address differently, and each counts for itself how often its ranks were started anew.
    """
    found: list[Job] = [
        {number: [programs[place] for place in group]}
        for number, programs in enumerate(reports)
        for group in groups(programs)
    ]
    return _joined(_joined(found, lambda job: _any(job).meeting), lambda job: None)


def _joined(found: Iterable[Job], alike: Callable[[Job], object]) -> list[Job]:
    """The same with those put together that can be one: so many ranks, of other reports, none of them twice."""
    made: list[Job] = []
    for job in found:
        fits = (one for one in made if alike(one) == alike(job) and _can_be_one(one, job))
        if (first := next(fits, None)) is None:
            made.append(job)
        else:
            first.update(job)
    return made


def _can_be_one(one: Job, other: Job) -> bool:
    return _any(one).ranks == _any(other).ranks and not (one.keys() & other.keys() or _numbers(one) & _numbers(other))


def _any(job: Job) -> Program:
    return next(iter(job.values()))[0]


def _numbers(job: Job) -> set[int | None]:
    return {one.rank for programs in job.values() for one in programs}


def in_loops_s(found: WatchResult | None) -> float:
    """The seconds that a program spent in its training loop; of one that does not train, much less counts."""
    if found is None:
        return 0.0
    trains = any(one.training for one in found.loaders)
    loops = (one for one in found.loaders if one.loader in found.loaders_in_loop)
    return sum((one.s_per_iteration or 0.0) * one.iterations for one in loops) * (1.0 if trains else 1e-6)
