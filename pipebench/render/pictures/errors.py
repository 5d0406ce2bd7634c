"""A calibration: the error of every planted figure, beside the goal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipebench.render.calibration import foot
from pipebench.render.cells import Table
from pipebench.render.pictures import Picture
from pipebench.render.pictures.axes import Axis, Row, draw_below, rows
from pipebench.render.pictures.drawing import picture
from pipebench.render.pictures.sheet import Box, Dot, Sheet, wrapped_chips
from pipebench.results.calibration import GOAL_SHARE, Calibration, PlantedFigure
from pipebench.results.report import Report
from pipebench.units import percent, printable

_RUNS = 24
_DOTS = 40  # of one run: the largest errors
_LEAST = 2 * GOAL_SHARE  # the axis reaches at least so far to both sides
_FARTHEST = 0.25


def pictures(report: Report) -> Iterator[Picture]:
    found = report.calibration
    if found is None or not found.rows:
        return
    runs: dict[tuple[str, str], list[PlantedFigure]] = {}
    for row in found.rows:
        runs.setdefault((row.part, row.run), []).append(row)
    cells = tuple(
        (_name(*name), str(len(own)), str(sum(one.within for one in own)), percent(max(map(_size, own)), 1))
        for name, own in runs.items()
    )
    table = Table("", ("run", "figures", "within", "largest error"), cells, frozenset({1, 2, 3}))
    shown = dict(list(runs.items())[:_RUNS])
    yield picture(
        "errors", "stages", "The instrument's own error", f"{foot(found)}.", table,
        lambda sheet: _draw(sheet, shown, found),
    )  # fmt: skip


def _name(part: str, run: str) -> str:
    return printable(run if part == run else f"{part}: {run}")


def _size(one: PlantedFigure) -> float:
    return abs(one.error_share)


def _draw(sheet: Sheet, runs: dict[tuple[str, str], list[PlantedFigure]], found: Calibration) -> float:
    words = [Row(_name(*name), f"{sum(one.within for one in own)} of {len(own)}") for name, own in runs.items()]
    laid = rows(sheet, words, 2.0, most=0.42)
    reach = min(_FARTHEST, max(_LEAST, *(1.1 * _size(one) for own in runs.values() for one in own)))
    axis = Axis(-reach, reach, laid.begin, laid.end)
    goal = Box(axis.at(-GOAL_SHARE), laid.top, axis.at(GOAL_SHARE) - axis.at(-GOAL_SHARE), laid.bottom - laid.top, "2",
               opacity=0.14)  # fmt: skip
    sheet.add(goal)
    below = draw_below(
        sheet, axis, laid, lambda value: f"{100 * value:+g} %".replace("+0 ", "0 "), "error, of an iteration"
    )
    for own, y in zip(runs.values(), laid.middles, strict=True):
        for one in _largest(own):
            tip = f"{printable(one.name)}: {percent(one.error_share, 2)} of an iteration"
            sheet.add(Dot(axis.at(one.error_share), y, "2" if one.within else "1", 3.2, tip=tip))
    chips = [("2", "within the goal"), ("1", "over the goal")]
    return wrapped_chips(sheet, chips if found.within < len(found.rows) else chips[:1], below + 2)


def _largest(own: Sequence[PlantedFigure]) -> list[PlantedFigure]:
    return sorted(own, key=_size)[-_DOTS:]
