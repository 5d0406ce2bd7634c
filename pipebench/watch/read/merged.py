"""Puts the reports of several machines together: the ranks of one training, each watched on its own machine. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from itertools import filterfalse

from pipebench.errors import PipebenchError
from pipebench.results.programs import Program, WatchedCommand
from pipebench.results.ranks import Ranks
from pipebench.results.report import Report
from pipebench.results.watched import WatchResult
from pipebench.watch.read.ranks import Rank, compared

Found = tuple[Report, Program, WatchResult]


def merged(reports: Sequence[Report]) -> Report:
    """One report of the ranks in all these reports. Own times of steps are durations, so clocks need not agree.

    Its figures are those of the rank that the others wait for, or of the first one. It is without their steps, which
    are compared by now and can be millions. Merged reports are passed over. A job that was queued again has
    reports of several attempts: the last one is shown, after a comparison of those before. Raises PipebenchError if
    there are no ranks, or if they are not of one training.
    """
    attempts: dict[int, list[Report]] = {}
    for report in filterfalse(_is_merged, reports):
        attempts.setdefault(report.command.attempt if report.command is not None else 0, []).append(report)
    seen = [(attempts[number], its) for number in sorted(attempts) if (its := _of_attempt(attempts[number]))]
    if not seen:
        raise PipebenchError(
            "these reports have no ranks that train together",
            "save one on each machine: pipebench watch --out FOLDER -- torchrun train.py. "
            "`pipebench show FILE` shows a single one",
        )
    *earlier, (last, found) = seen
    ranks = _compared(found)
    shown = 0 if ranks.straggler is None else [one.rank for _, one, _ in found].index(ranks.straggler)
    numbers = {id(report): number for number, report in enumerate(last)}
    programs = tuple(
        dataclasses.replace(
            one,
            watched=None if place == shown else figures,
            host=_host(report),
            report=numbers[id(report)],
            steps=(),
        )
        for place, (report, one, figures) in enumerate(found)
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


def _is_merged(report: Report) -> bool:
    """Whether it was made here, and saved beside those of the machines."""
    return report.command is not None and any(one.host for one in report.command.programs)


def _of_attempt(reports: Sequence[Report]) -> list[Found]:
    """The ranks in the reports of one attempt, in order."""
    found = [(report, one, figures) for report in reports for one, figures in _ranks_in(report)]
    numbers, of = [one.rank or 0 for _, one, _ in found], {one.ranks for _, one, _ in found}
    if len(of) > 1 or len(set(numbers)) < len(numbers):
        raise PipebenchError(
            "these reports are not of one training: a rank is there twice, or their numbers of ranks differ",
            "give the reports of one run a folder of their own",
        )
    return sorted(found, key=lambda each: each[1].rank or 0)


def _compared(found: Sequence[Found]) -> Ranks:
    return compared(
        max(one.ranks or 1 for _, one, _ in found),
        [Rank(one.rank or 0, one.pid, one.steps, figures) for _, one, figures in found],
    )


def _ranks_in(report: Report) -> Iterator[tuple[Program, WatchResult]]:
    """The programs of a report that train with others, each with its figures. If ranks were started anew, the last."""
    programs = report.command.programs if report.command is not None else ()
    for one in {one.rank: one for one in programs}.values():
        figures = one.watched or report.watched
        if one.rank is not None and figures is not None:
            yield one, figures


def _host(report: Report) -> str:
    return report.machine.host if report.machine is not None else ""
