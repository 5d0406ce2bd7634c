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
    engine,
    examination,
    functions,
    lab,
    layout,
    loaders,
    plan,
    remote,
    screen,
    study,
    syncs,
    tables,
    watched,
)
from pipebench.render.layout import Line, Part, Spare, Sparing
from pipebench.results.report import Report
from pipebench.results.studies import StudyResult


def table(
    report: Report,
    *,
    width: int = layout.WIDTH,
    colour: bool = False,
    full: bool = False,
    lacking: frozenset[str] = frozenset(),
) -> str:
    """The report as text. Each part begins with its verdict, and every line fits in `width` columns.

    It fits a screen; `full` shows every figure, and a long text then ends with its verdict. `colour` adds only terminal
    styles. `lacking` are the signs that the terminal cannot show.
    """
    parts = _parts(report, full)
    made = screen.whole(parts, width) if full else screen.fitted(parts, width, *_page(report))
    return layout.text(made, width=width, colour=colour, lacking=lacking)


def _page(report: Report) -> tuple[str, int]:
    """How the reader of a shortened report gets the rest, and how many lines it has. A watched run says it anyway."""
    if report.calibration is not None:
        return "Shortened: `pipebench show FILE --full` shows every figure of a saved report.", screen.LINES
    if report.workload is not None or report.loaders is not None or report.engine is not None:
        return "Shortened: --full shows every figure, here or with `pipebench show`.", screen.LINES
    return ("", screen.OF_RUN) if report.watched is not None and report.advice is None else (screen.MORE, screen.LINES)


def markdown(report: Report) -> str:
    """The report as Markdown, with every figure, for a pull request or a document."""
    return layout.markdown(_parts(report, full=True))


def _parts(report: Report, full: bool) -> Iterator[Sparing]:
    if report.workload is not None:
        yield from lab.parts(report, full)
    elif report.measurements:
        yield functions.table(report.measurements)
    yield from of_commands(report, full)
    if _is_without_heading(report):
        yield Spare(tuple(Line(line, "dim") for line in tables.heading(report)), 3)
        yield from tables.partial(report)


def of_commands(report: Report, full: bool) -> Iterator[Sparing]:
    """The parts of the commands other than `run`."""
    yield from _watched(report, full)
    for name, parts in _OF_PART.items():
        if getattr(report, name):
            yield from parts(report, full)


def _watched(report: Report, full: bool) -> Iterator[Sparing]:
    if report.advice is not None:
        yield from advice.parts(report.advice, report.watched, full=full)
    elif report.watched is not None:
        yield from watched.saved(report, full)


def _is_without_heading(report: Report) -> bool:
    """Whether there are timings, but no part above names the machine on which they were taken."""
    if report.advice is not None:
        return True
    timed = report.comparison is not None or report.studies or report.measurements or report.loaders or report.engine
    return bool(timed) and report.workload is None and report.watched is None


def _study(one: StudyResult) -> Iterator[Part]:
    yield Line(study.verdict(one), "bold")
    yield from (Line(line, "dim") for line in study.heading(one))
    yield dataclasses.replace(study.table(one), title="")


# For each part of a report that a command makes: how it is shown. `full` asks for every figure.
_OF_PART: dict[str, Callable[[Any, bool], Iterable[Sparing]]] = {
    "sync_points": lambda report, full: syncs.parts(report.sync_points),
    "comparison": lambda report, full: ab.sparing(report.comparison),
    "studies": lambda report, full: (part for one in report.studies for part in _study(one)),
    "calibration": lambda report, full: calibration.parts(report.calibration, full),
    "plan": lambda report, full: plan.parts(report.plan),
    "passport": lambda report, full: plan.passport(report.passport),
    "check": lambda report, full: check.parts(report.check, full=full, partial=report.partial),
    "loaders": lambda report, full: loaders.parts(report.loaders, full),
    "examination": lambda report, full: examination.parts(report.examination, full),
    "remote": lambda report, full: remote.parts(report.remote, full),
    "engine": lambda report, full: engine.parts(report.engine, report.bad_samples),
    "before_after": lambda report, full: before_after.parts(report.before_after, full=full),
}
