"""A whole report for the terminal, or as Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pipebench.render import ab, calibration, layout, study, syncs, tables, watched
from pipebench.render.layout import Part
from pipebench.results.report import Report


def table(report: Report, *, width: int = layout.WIDTH, colour: bool = False, full: bool = False) -> str:
    """The report as aligned tables, each part with its verdict first.

    No line is wider than `width` columns, but for those of sync points where `width` is larger than any terminal.
    `colour` adds terminal styles and nothing else. `full` shows every figure of a watched run; without it they fit a
    screen.
    """
    found = []
    if report.workload is not None:
        found.append(layout.text(_lab(report), width=width, colour=colour))
    if report.watched is not None:
        found.append(watched.text(report, width=width, colour=colour, full=full))
    if report.sync_points is not None:
        found.append(syncs.render(report.sync_points, width=width))
    if (one := report.comparison) is not None:
        found.append(ab.text(one.changes, one.base, one.head, one.fail_above, width=width, colour=colour))
    found += [layout.text(_study(report, number), width=width, colour=colour) for number in range(len(report.studies))]
    if report.calibration is not None:
        found.append(calibration.render(report.calibration, width=width, colour=colour))
    if _lacks_heading(report):
        found.append(layout.text(tables.heading(report), width=width))
    return "\n".join(found)


def _lacks_heading(report: Report) -> bool:
    """Whether there are timings, and no part above names the machine on which they were taken."""
    timed = report.comparison is not None or report.studies
    return bool(timed) and report.workload is None and report.watched is None


def _lab(report: Report) -> Iterator[Part]:
    yield from tables.verdict(report).splitlines()
    yield from tables.heading(report)
    yield from tables.all_tables(report)
    if bad := tables.bad_samples(report):
        yield from ("", f"Bad samples ({len({one.sample for one in report.bad_samples})})")
        yield from (f"  {line}" for line in bad)


def _study(report: Report, number: int) -> list[Part]:
    found = report.studies[number]
    return [*study.heading(found), replace(study.table(found), title="")]


def markdown(report: Report) -> str:
    """The report as Markdown, for a pull request or a document."""
    return "\n\n".join(part.rstrip("\n") for part in _markdown_parts(report)) + "\n"


def _markdown_parts(report: Report) -> Iterator[str]:
    if report.workload is not None:
        yield layout.markdown(_lab(report))
    if report.watched is not None:
        yield watched.markdown(report)
    if report.sync_points is not None:
        yield layout.fenced(syncs.render(report.sync_points))
    if (compared := report.comparison) is not None:
        yield ab.markdown(compared.changes, compared.base, compared.head, compared.fail_above)
    for one in report.studies:
        title, *rest = layout.markdown_table(study.table(one), level=2)
        yield from (title, *map(layout.inert, study.heading(one)[1:]), *rest)
    if report.calibration is not None:
        yield calibration.markdown(report.calibration)
    if _lacks_heading(report):
        yield from map(layout.inert, tables.heading(report))
