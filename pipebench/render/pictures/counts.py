"""How often a step makes the host wait: by line of the user's code, and by step of a study that counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipebench.render import study, syncs
from pipebench.render.cells import Table
from pipebench.render.pictures import Picture
from pipebench.render.pictures.axes import Row, draw_below, in_unit, reaching, rows
from pipebench.render.pictures.drawing import picture, slug
from pipebench.render.pictures.sheet import Box, Sheet, note
from pipebench.results.report import Report
from pipebench.results.studies import StudyResult
from pipebench.results.sync_points import SyncReport
from pipebench.units import Scale, printable, seconds

_MOST = 30  # bars
_KEY = "Pale: the debug mode of the device did not see this line wait."


@dataclass(frozen=True)
class _Bar:
    """A count of a step, with its words. A `pale` one was looked for on the device, and not seen to wait."""

    name: str
    count: float
    value: str
    pale: bool = False


def pictures(report: Report) -> Iterator[Picture]:
    if report.sync_points is not None and report.sync_points.points:
        yield _of_lines(report.sync_points)
    for result in report.studies:
        if (said := study.counts_left(result)) is not None:
            yield _of_study(result, said)


def _of_lines(found: SyncReport) -> Picture:
    bars = [
        _Bar(f"{printable(one.path)}:{one.line}", one.per_step, syncs.number(one.per_step), one.confirmed == 0)
        for one in found.points
    ]
    cells = tuple(
        (bar.name, bar.value, "" if one.confirmed is None else syncs.number(one.confirmed),
         "" if one.lost_s is None else seconds(one.lost_s))
        for bar, one in zip(bars, found.points, strict=True)
    )  # fmt: skip
    headers = ("line", "sync points a step", "seen to wait", "lost")
    return _picture(
        "sync-points", "How often each line makes the host wait", syncs.verdict(found), bars, headers, cells
    )


def _of_study(result: StudyResult, said: str) -> Picture:
    bars = [_Bar(printable(row.name), row.count, f"{row.count:g}") for row in result.rows if row.count is not None]
    unit = printable(result.unit)
    headers = ("step", f"sync points a {unit}")
    title = f"{printable(result.title)}: sync points"
    cells = tuple((one.name, one.value) for one in bars)
    return _picture(slug("counts", result.study), title, said, bars, headers, cells)


def _picture(
    name: str, title: str, alt: str, bars: Sequence[_Bar], headers: tuple[str, ...], cells: tuple[tuple[str, ...], ...]
) -> Picture:
    notes = (f"The picture has the first {_MOST}.",) if len(bars) > _MOST else ()
    table = Table("", headers, cells, frozenset(range(1, len(headers))), notes).filled()
    return picture(name, "stages", title, alt, table, lambda sheet: _draw(sheet, bars[:_MOST], headers[1]))


def _draw(sheet: Sheet, bars: Sequence[_Bar], unit: str) -> float:
    laid = rows(sheet, [Row(one.name, one.value) for one in bars], 2.0, step=22.0, most=0.5)
    axis = reaching([one.count for one in bars], laid.begin, laid.end)
    below = draw_below(sheet, axis, laid, in_unit(Scale("", 1.0)), unit)
    for one, y in zip(bars, laid.middles, strict=True):
        width, tip = axis.at(one.count) - axis.begin, f"{one.name}: {one.value}"
        sheet.add(Box(axis.begin, y - 6, width, 12, "1", opacity=0.35 if one.pale else 1.0, tip=tip))
    return note(sheet, _KEY, below) if any(one.pale for one in bars) else below
