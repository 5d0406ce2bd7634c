"""The ranks of one training side by side: what each waits for its data, and what it works by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pipebench.render.cells import Table
from pipebench.render.pictures import Picture
from pipebench.render.pictures.axes import Axis, Row, draw_below, draw_x, draw_y, in_unit, reaching, rows
from pipebench.render.pictures.drawing import picture
from pipebench.render.pictures.sheet import SMALL, Area, Box, Sheet, wrapped_chips
from pipebench.render.ranks import parts
from pipebench.results.ranks import RankRow, Ranks
from pipebench.results.report import Report
from pipebench.units import percent, seconds, seconds_scale

_ROWS = 16  # more ranks are columns without names
_COLUMNS = 256  # more ranks are drawn as the slowest of their neighbours
_KEY = (("1", "waits for batches"), ("0", "its own work"))


def pictures(report: Report) -> Iterator[Picture]:
    ranks = report.command.ranks if report.command is not None else None
    if ranks is None or len(ranks.rows) < 2 or not ranks.steps:
        return
    scale = seconds_scale([max(one.wait_s + one.work_s for one in ranks.rows)])
    cells = tuple(
        (str(one.rank), scale.number(one.wait_s), scale.number(one.work_s), percent(one.last_share), f"{one.samples:,}")
        for one in ranks.rows
    )
    headers = ("rank", f"wait, {scale.unit}", f"own work, {scale.unit}", "last", "samples")
    table = Table("", headers, cells, frozenset(range(5)))
    verdict = getattr(parts(ranks)[0], "text", "")
    draw = _bars if len(ranks.rows) <= _ROWS else _columns
    yield picture("ranks", "ranks", "Each rank's own part of a step", verdict, table, lambda sheet: draw(sheet, ranks))


def _bars(sheet: Sheet, found: Ranks) -> float:
    words = [
        Row(f"rank {one.rank}", f"last in {percent(one.last_share)}", one.rank == found.straggler) for one in found.rows
    ]
    laid = rows(sheet, words, 2.0)
    axis = reaching([one.wait_s + one.work_s for one in found.rows], laid.begin, laid.end)
    scale = seconds_scale([axis.high])
    below = draw_below(sheet, axis, laid, in_unit(scale), f"{scale.unit} of a step")
    for one, y in zip(found.rows, laid.middles, strict=True):
        middle, end = axis.at(one.wait_s), axis.at(one.wait_s + one.work_s)
        sheet.add(
            Box(axis.begin, y - 8, middle - axis.begin, 16, "1", tip=f"rank {one.rank} waits {seconds(one.wait_s)}")
        )
        sheet.add(Box(middle, y - 8, end - middle, 16, "0", tip=f"rank {one.rank} works {seconds(one.work_s)}"))
        sheet.line((middle, y - 8), (middle, y + 8), colour="page")
    return wrapped_chips(sheet, _KEY, below + 4)


def _columns(sheet: Sheet, found: Ranks) -> float:
    """Many ranks: two steps of areas, of the wait and on top of it the work."""
    ranked = sorted(found.rows, key=lambda one: one.rank)
    step = max(1, -(-len(ranked) // _COLUMNS))
    shown = [
        max(ranked[place : place + step], key=lambda one: one.wait_s + one.work_s)
        for place in range(0, len(ranked), step)
    ]
    scale = seconds_scale([max(one.wait_s + one.work_s for one in shown)])
    up = Axis(0.0, 1.05 * max(one.wait_s + one.work_s for one in shown), 190.0, 26.0)
    left, right = 50.0, sheet.width - 8
    across = Axis(0.0, float(len(shown)), left, right)
    draw_y(sheet, up, left, right, in_unit(scale))
    sheet.words(0, 12, f"{scale.unit} of a step", "muted", size=SMALL)
    sheet.add(_steps(shown, across, up, lambda one: one.wait_s + one.work_s, "0"))
    sheet.add(_steps(shown, across, up, lambda one: one.wait_s, "1"))
    slow = next((place for place, one in enumerate(shown) if one.rank == found.straggler), None)
    if slow is not None:
        at = min(max(across.at(slow + 0.5), left + 60), right - 60)
        sheet.words(at, 20, f"rank {found.straggler} is last", size=SMALL, anchor="middle", bold=True)
    whole = Axis(float(ranked[0].rank), float(ranked[-1].rank), left, right)
    below = draw_x(sheet, whole, up.begin, up.begin, lambda value: f"{value:g}", "rank")
    return wrapped_chips(sheet, _KEY, below + 4)


def _steps(shown: Sequence[RankRow], across: Axis, up: Axis, of: Callable[[RankRow], float], colour: str) -> Area:
    points = [(across.begin, up.begin)]
    for place, one in enumerate(shown):
        points += [(across.at(place), up.at(of(one))), (across.at(place + 1), up.at(of(one)))]
    return Area((*points, (across.end, up.begin)), colour)
