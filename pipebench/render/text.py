"""Renders any report for the terminal or as Markdown: the parts of every command, one after another."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from pipebench.render import (
    ab,
    advice,
    before_after,
    calibration,
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
    if report.sync_points is not None:
        yield from syncs.parts(report.sync_points)
    if report.comparison is not None:
        yield from ab.parts(report.comparison)
    for one in report.studies:
        yield from _study(one)
    if report.calibration is not None:
        yield from calibration.parts(report.calibration)
    if report.plan is not None:
        yield from plan.parts(report.plan)
    if report.passport is not None:
        yield from plan.passport(report.passport)
    if report.before_after is not None:
        yield from before_after.parts(report.before_after, full=full)


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
        yield Line(f"Bad samples ({len({one.sample for one in report.bad_samples})})", "bold")
        yield from (f"  {line}" for line in bad)


def _study(one: StudyResult) -> Iterator[Part]:
    first, *rest = study.heading(one)
    yield Line(first, "bold")
    yield from (Line(line, "dim") for line in rest)
    yield dataclasses.replace(study.table(one), title="")
