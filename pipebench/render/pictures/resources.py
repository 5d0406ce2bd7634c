"""What the run had in stock and in memory: ready batches, and the memory of its workers, over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipebench.render.cells import Table
from pipebench.render.pictures import Picture
from pipebench.render.pictures.axes import Axis, draw_x, draw_y, in_unit
from pipebench.render.pictures.drawing import picture
from pipebench.render.pictures.sheet import SMALL, Area, Sheet, width_of
from pipebench.results.hand_off import HandOff, QueuePoint
from pipebench.results.over_time import WorkerMemory
from pipebench.results.report import Report
from pipebench.results.watched import WorkerResult
from pipebench.units import Scale, bytes_scale, counted, percent, seconds, seconds_scale, size

_LOW = 0.25  # of what can be ready: below it, the workers are the limit
_APART = 13.0  # pixels between two names
_COLOURS = "0123456"


def pictures(report: Report) -> Iterator[Picture]:
    result = report.watched
    if result is None:
        return
    if result.hand_off is not None and result.hand_off.most_ready and len(result.hand_off.ready_over_time) > 1:
        yield _queue(result.hand_off, result.hand_off.ready_over_time, result.hand_off.most_ready)
    lines = [one for one in result.over_time.memory if len(one.points) > 1] if result.over_time else []
    if lines:
        yield _memory(lines, result.workers)


def _queue(found: HandOff, points: Sequence[QueuePoint], most: int) -> Picture:
    mean, batches = found.ready or 0.0, sum(one.batches for one in points) or 1
    low = sum(one.batches for one in points if one.ready <= _LOW * most) / batches
    alt = f"When the loop asks for a batch, {mean:.1f} of at most {most} are ready. "
    alt += "The workers are the limit." if mean <= _LOW * most else "The workers keep up." if mean > most / 2 else ""
    alt += f" In {percent(low)} of the run nearly none was ready." if low and mean > _LOW * most else ""
    cells = tuple((seconds(one.at_s), f"{one.ready:.1f}", str(one.batches)) for one in points)
    table = Table("", ("after the first batch", "ready", "batches"), cells, frozenset({0, 1, 2}))
    return picture(
        "queue", "resources", "Batches that are ready when the loop asks", alt, table,
        lambda sheet: _draw_queue(sheet, points, most, mean),
    )  # fmt: skip


def _draw_queue(sheet: Sheet, points: Sequence[QueuePoint], most: int, mean: float) -> float:
    up = Axis(0.0, float(most), 130.0, 24.0)
    left, right = 34.0, sheet.width - 8
    across = Axis(points[0].at_s, points[-1].at_s, left, right)
    draw_y(sheet, up, left, right, in_unit(Scale("", 1.0)))
    sheet.words(0, 12, f"ready, of {most}", "muted", size=SMALL)
    places = [(across.at(one.at_s), up.at(one.ready)) for one in points]
    sheet.add(Area(((places[0][0], up.begin), *places, (places[-1][0], up.begin)), "2", 0.2))
    sheet.line(*places, colour="2", width=1.8)
    sheet.words(right, 12, f"mean {mean:.1f}", "2", size=SMALL, anchor="end")
    scale = seconds_scale([points[-1].at_s])
    return draw_x(sheet, across, up.begin, up.begin, in_unit(scale), f"{scale.unit} after the first batch")


def _memory(lines: Sequence[WorkerMemory], workers: Sequence[WorkerResult]) -> Picture:
    grows = {(one.loader, one.worker): one.growth_bytes_per_s for one in workers if one.growth_bytes_per_s}
    last = max(lines, key=lambda one: one.points[-1].own_bytes)
    alt = f"Worker {last.worker} ends with {size(last.points[-1].own_bytes)} of its own memory"
    alt += ", the most of all." if lines[1:] else "."
    if grows:
        fastest = max(grows.values())
        alt += f" {counted(len(grows), 'worker grows', 'workers grow')} steadily, by up to {size(fastest)} a second."
    else:
        alt += " None grows steadily."
    cells = tuple(
        (str(one.worker), str(one.loader), *(size(at(point.own_bytes for point in one.points)) for at in (min, max)),
         size(one.points[-1].own_bytes))
        for one in lines
    )  # fmt: skip
    more = len([one for one in workers if one.loader == lines[0].loader]) - len(lines)
    notes = (f"The {len(lines)} workers with most memory.",) if more > 0 else ()
    headers = ("worker", "loader", "least", "most", "at the end")
    table = Table("", headers, cells, frozenset(range(5)), notes)
    return picture(
        "memory", "resources", "Each worker's own memory", alt, table, lambda sheet: _draw_memory(sheet, lines)
    )


def _draw_memory(sheet: Sheet, lines: Sequence[WorkerMemory]) -> float:
    most = max(point.own_bytes for one in lines for point in one.points)
    scale = bytes_scale([most])
    up = Axis(0.0, 1.05 * most or 1.0, 190.0, 22.0)
    left, right = 46.0, sheet.width - 72
    moments = [point.at_s for one in lines for point in one.points]
    across = Axis(min(moments), max(max(moments), min(moments) + 1e-9), left, right)
    draw_y(sheet, up, left, right, in_unit(scale))
    sheet.words(0, 12, scale.unit, "muted", size=SMALL)
    ends = []
    for place, one in enumerate(lines):
        colour = _COLOURS[place % len(_COLOURS)]
        sheet.line(*((across.at(p.at_s), up.at(p.own_bytes)) for p in one.points), colour=colour, width=1.6)
        ends.append((up.at(one.points[-1].own_bytes), f"worker {one.worker}", colour))
    taken = 0.0
    for y, text, colour in sorted(ends):
        taken = max(y + 4, taken + _APART)
        sheet.words(right + 6, taken, text, colour, size=SMALL, room=max(62.0, width_of("worker 10", SMALL)))
    run = seconds_scale([across.high])
    below = draw_x(sheet, across, up.begin, up.begin, in_unit(run), f"{run.unit} after the begin of the run")
    return max(below, taken + 8)
