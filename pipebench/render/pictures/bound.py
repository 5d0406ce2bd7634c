"""Training live, beside the same training with its batches ready: what removing the data work can bring."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipebench.render.cells import LEAST_CONFIDENCE, Table, over_live, spoken
from pipebench.render.pictures import Picture
from pipebench.render.pictures.axes import Row, draw_below, in_unit, reaching, rows
from pipebench.render.pictures.drawing import picture
from pipebench.render.pictures.sheet import Box, Sheet
from pipebench.results.report import Report
from pipebench.results.watched import BoundResult
from pipebench.results.windows import Throughput
from pipebench.stats import Speedup
from pipebench.units import Scale, width

_Found = tuple[str, Throughput, Speedup | None, str]


def pictures(report: Report) -> Iterator[Picture]:
    bound = report.training.bound if report.training else report.watched.bound if report.watched else None
    if bound is None or bound.live is None:
        return
    found = _found(bound)
    ready = [(one, over) for _, one, over, _ in found if over is not None]
    if not ready:
        return
    of_device = bound.device_over_live is not None
    best, over = ready[-1] if of_device else max(ready, key=lambda one: one[1].speedup)
    alt = f"Live, the training takes {bound.live.samples_per_s:,.0f} samples/s; with its batches ready "
    alt += f"{best.samples_per_s:,.0f}"
    if over.confidence < LEAST_CONFIDENCE:
        alt += ". There are too few windows to say what it would gain."
    else:
        alt += f", at most {spoken(over)} as fast." + ("" if over.told else " No measurable gain.")
    cells = tuple(
        (name, f"{one.samples_per_s:,.1f}", _width(one), over_live(over) if over else "1")
        for name, one, over, _ in found
        if over or one is bound.live
    )
    table = Table("", ("", "samples/s", "", "× live"), cells, frozenset({1, 2, 3}))
    title = "Training, and the same with its batches ready"
    yield picture("bound", "throughput", title, alt, table, lambda sheet: _draw(sheet, found))


def _width(one: Throughput) -> str:
    return width(one.samples_per_s, one.low, one.high) if one.confidence >= LEAST_CONFIDENCE else ""


def _found(bound: BoundResult) -> list[_Found]:
    every = (
        ("live", bound.live, None, "0"),
        ("ready, workers busy", bound.bound_busy, bound.busy_over_live, "2"),
        ("ready, workers idle", bound.bound, bound.bound_over_live, "2"),
        ("on the device", bound.bound_device, bound.device_over_live, "2"),
    )
    return [(name, one, over, colour) for name, one, over, colour in every if one is not None]


def _draw(sheet: Sheet, found: Sequence[_Found]) -> float:
    words = [
        Row(name, f"{one.samples_per_s:,.0f}" + (f" · {over.speedup:.2f}×" if over else ""), not place)
        for place, (name, one, over, _) in enumerate(found)
    ]
    laid = rows(sheet, words, 2.0)
    axis = reaching([one.high for _, one, _, _ in found], laid.begin, laid.end)
    below = draw_below(sheet, axis, laid, in_unit(Scale("", 1.0)), "samples/s of the training loop")
    for (name, one, _, colour), y in zip(found, laid.middles, strict=True):
        tip = f"{name}: {one.samples_per_s:,.0f} samples/s ({one.low:,.0f} to {one.high:,.0f})"
        sheet.add(Box(axis.begin, y - 8, axis.at(one.samples_per_s) - axis.begin, 16, colour, tip=tip))
        sheet.line((axis.at(one.low), y), (axis.at(one.high), y), colour="ink", width=1.6)
    return below
