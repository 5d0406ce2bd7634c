"""Puts the reports of several machines together: the ranks of one training, each watched on its own machine. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from itertools import filterfalse
from typing import cast

from pipebench.errors import PipebenchError
from pipebench.results.programs import Program, WatchedCommand
from pipebench.results.ranks import Ranks, StepOfRank
from pipebench.results.report import Report
from pipebench.results.watched import WatchResult
from pipebench.watch.read.hang import with_hang
from pipebench.watch.read.kept_steps import KeptSteps
from pipebench.watch.read.one_of_ranks import with_siblings
from pipebench.watch.read.rank_groups import in_loops_s, jobs
from pipebench.watch.read.ranks import Rank, compared

Found = tuple[Report, Program, WatchResult]


def merged(reports: Iterable[Report]) -> Report:
    """One report of the ranks in all these reports, which are taken one after another.

    Own times of steps are durations, so clocks need not agree.

    Its figures are those of the rank that the others wait for, or of the first one. It is without their steps, which
    are compared by now and can be millions. Merged reports are passed over. Of several jobs of one command, it is the
    one that trained longest. A job that was queued again has reports of several attempts: the last one is shown, after
    a comparison of those before. Raises PipebenchError if there are no ranks, or if they are not of one run.
    """
    attempts: dict[int, list[Report]] = {}
    for report in filterfalse(_is_merged, reports):
        attempts.setdefault(report.command.attempt if report.command is not None else 0, []).append(_compact(report))
    seen = [(attempts[number], its) for number in sorted(attempts) if (its := _of_attempt(attempts[number]))]
    if not seen:
        raise PipebenchError(
            "these reports have no ranks that train together",
            "save one on each machine: pipebench watch --out FOLDER -- torchrun train.py. "
            "`pipebench show FILE` shows a single one",
        )
    *earlier, (last, found) = seen
    found = _among_siblings(found)
    if len({id(report) for report, _, _ in found}) > 1:  # no one command started them all: none of ours can
        found = [(report, one, dataclasses.replace(figures, started="")) for report, one, figures in found]
    numbers = {id(report): number for number, report in enumerate(last)}
    placed = [dataclasses.replace(one, report=numbers[id(report)]) for report, one, _ in found]
    ranks = with_hang(_compared(found), placed)
    chosen = ranks.held_up_by
    shown = 0 if chosen is None else [one.rank for _, one, _ in found].index(chosen)
    programs = tuple(
        dataclasses.replace(one, watched=None if place == shown else figures, host=_host(report), steps=())
        for place, (one, (report, _, figures)) in enumerate(zip(placed, found, strict=True))
    )
    status = max((report.command.status for report in last if report.command is not None), default=0)
    report, _, figures = found[shown]
    before = tuple(_compared(each) for _, each in earlier)
    return dataclasses.replace(
        report,
        partial=any(one.partial for one in last),
        watched=figures,
        command=WatchedCommand((), status, programs, shown, ranks=ranks, earlier=before),
    )


def _compact(report: Report) -> Report:
    """The report with its steps in little memory."""
    if report.command is None:
        return report
    programs = tuple(
        dataclasses.replace(one, steps=cast("tuple[StepOfRank, ...]", KeptSteps(one.steps)))
        for one in report.command.programs
    )
    return dataclasses.replace(report, command=dataclasses.replace(report.command, programs=programs))


def _is_merged(report: Report) -> bool:
    """Whether it was made here, and saved beside those of the machines."""
    return report.command is not None and any(one.host for one in report.command.programs)


def _of_attempt(reports: Sequence[Report]) -> list[Found]:
    """The ranks in the reports of one attempt that trained longest together, in order.

    A command can run several jobs, such as a training and its evaluation, and ranks can be started anew.
    """
    every = jobs([[*_ranks_in(report)] for report in reports])
    if not every:
        return []
    chosen = max(reversed(every), key=lambda job: max(in_loops_s(one.watched) for its in job.values() for one in its))
    known = {at for job in every if job.keys() & chosen.keys() for at in job}
    if any(job.keys() - known for job in every):
        raise PipebenchError(
            "these reports are not of one training: some have no rank that trained with those of the others",
            "give the reports of one run a folder of their own",
        )
    ranks = [(reports[at], one, one.watched) for at, its in chosen.items() for one in its if one.watched is not None]
    return sorted(ranks, key=lambda each: each[1].rank or 0)


def _among_siblings(found: list[Found]) -> list[Found]:
    """The ranks with the figures that depend on their siblings, which another `pipebench watch` saw on their machine.

    A rank that left no report may be on any machine: then nothing is changed.
    """
    if len(found) < (found[0][1].ranks or 1):
        return found
    told = []
    for report, one, figures in found:
        here = [each for each in found if _host(each[0]) == _host(report)]
        others = [its for _, other, its in here if other is not one]
        told.append((report, one, with_siblings(figures, others, _shared_cores(here))))
    return told


def _shared_cores(ranks: Sequence[Found]) -> float:
    """The cores that these ranks may use together. If that is not known, those of one: they may all have the same."""
    if all(len(one.cores) == its.usable_cores for _, one, its in ranks):
        return float(len({core for _, one, _ in ranks for core in one.cores}))
    return max(its.usable_cores for _, _, its in ranks)


def _compared(found: Sequence[Found]) -> Ranks:
    return compared(
        max(one.ranks or 1 for _, one, _ in found),
        [Rank(one.rank or 0, one.pid, one.steps, figures, one.ended, one.joined_s) for _, one, figures in found],
    )


def _ranks_in(report: Report) -> Iterator[Program]:
    """The programs of a report that train with others, each with its figures."""
    for one in report.command.programs if report.command is not None else ():
        figures = one.watched or report.watched
        if one.rank is not None and figures is not None:
            yield dataclasses.replace(one, watched=figures)


def _host(report: Report) -> str:
    return report.machine.host if report.machine is not None else ""
