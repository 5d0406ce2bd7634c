"""Renders any report for the terminal or as Markdown: the parts of every command, one after another."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pipebench.render import (
    ab,
    advice,
    before_after,
    calibration,
    check,
    functions,
    layout,
    plan,
    study,
    syncs,
    tables,
    watched,
)
from pipebench.render.layout import Line, Part
from pipebench.results.report import Report
from pipebench.results.studies import StudyResult

UNLIKE = "Good samples that some variants do otherwise than the reference, or not at all"


def table(report: Report, *, width: int = layout.WIDTH, colour: bool = False, full: bool = False) -> str:
    """The report as aligned tables. Each part begins with its verdict, and every line fits in `width` columns.

    `colour` adds only terminal styles. `full` shows every figure of a watched run; otherwise the run fits a screen.
    """
    return layout.text(_parts(report, full), width=width, colour=colour)


def markdown(report: Report) -> str:
    """The report as Markdown, with every figure, for a pull request or a document."""
    return layout.markdown(_parts(report, full=True))


def _parts(report: Report, full: bool) -> Iterator[Part]:
    if report.workload is not None:
        yield from _lab(report)
    elif report.measurements:
        yield functions.table(report.measurements)
    yield from of_commands(report, full)
    if _is_without_heading(report):
        yield from _heading(report)


def of_commands(report: Report, full: bool) -> Iterator[Part]:
    """The parts of the commands other than `run`."""
    yield from _watched(report, full)
    for name, parts in _OF_PART.items():
        if getattr(report, name):
            yield from parts(report, full)


def _watched(report: Report, full: bool) -> Iterator[Part]:
    if report.advice is not None:
        yield from advice.parts(report.advice, report.watched, full=full)
    elif report.watched is not None:
        yield from watched.saved(report, full)


def _is_without_heading(report: Report) -> bool:
    """Whether there are timings, but no part above names the machine on which they were taken."""
    if report.advice is not None:
        return True
    timed = report.comparison is not None or report.studies or report.measurements
    return bool(timed) and report.workload is None and report.watched is None


def _heading(report: Report) -> Iterator[Part]:
    yield from (Line(line, "dim") for line in tables.heading(report))


def _lab(report: Report) -> Iterator[Part]:
    yield from (Line(line, "bold") for line in tables.verdict(report).splitlines())
    yield from _heading(report)
    yield from tables.all_tables(report)
    if bad := tables.bad_samples(report):
        yield ""
        broken = {one.sample for one in report.bad_samples if not one.reference_did}
        yield Line(f"Bad samples ({len(broken)})", "bold")
        yield from (f"  {line}" for line in bad)
    if unlike := tables.unlike_samples(report):
        yield ""
        yield Line(UNLIKE, "bold")
        yield from (f"  {line}" for line in unlike)


def _study(one: StudyResult) -> Iterator[Part]:
    first, *rest = study.heading(one)
    yield Line(first, "bold")
    yield from (Line(line, "dim") for line in rest)
    yield dataclasses.replace(study.table(one), title="")


# For each part of a report that a command makes: how it is shown. `full` asks for every figure.
_OF_PART: dict[str, Callable[[Any, bool], Iterable[Part]]] = {
    "sync_points": lambda report, full: syncs.parts(report.sync_points),
    "comparison": lambda report, full: ab.parts(report.comparison),
    "studies": lambda report, full: (part for one in report.studies for part in _study(one)),
    "calibration": lambda report, full: calibration.parts(report.calibration),
    "plan": lambda report, full: plan.parts(report.plan),
    "passport": lambda report, full: plan.passport(report.passport),
    "check": lambda report, full: check.parts(report.check, full=full, partial=report.partial),
    "before_after": lambda report, full: before_after.parts(report.before_after, full=full),
}
