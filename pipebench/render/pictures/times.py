"""Waits and times of samples: one after the other, over the run, and the slowest by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipebench.render.cells import Table
from pipebench.render.layout import shortened
from pipebench.render.pictures import Picture
from pipebench.render.pictures.axes import Axis, Row, draw_below, draw_mark, draw_x, draw_y, in_unit, reaching, rows
from pipebench.render.pictures.drawing import brief, picture
from pipebench.render.pictures.sheet import SMALL, Area, Box, Sheet, width_of
from pipebench.results.batches import SlowSample
from pipebench.results.over_time import TimesPoint
from pipebench.results.report import Report
from pipebench.results.watched import WatchResult
from pipebench.units import counted, percent, printable, seconds, seconds_scale

_STALL = 3.0  # times the median wait
_LEAST_STALL_S = 1e-3
_SLOWEST = 10
_BAR = 14.0  # pixels of one wait, at most
_LONGEST = 200  # characters of a name
_ROWS = 60  # of the table of waits
_COLUMNS = 160  # of a phone or a page: more waits are drawn as the longest of their neighbours


def pictures(report: Report) -> Iterator[Picture]:
    result = report.watched
    if result is None:
        return
    over = result.over_time
    if over is not None and len(over.waits_s) > 2:
        yield _waits(result, over.waits_s)
    if over is not None and len(over.waits) > 1 and sum(one.number for one in over.waits) > len(over.waits_s):
        yield _waits_over_run(result, over.waits)
    if over is not None and len(over.samples) > 1:
        yield _samples(result, over.samples)
    if result.slowest:
        yield _slowest(result, result.slowest[:_SLOWEST])


def _waits(result: WatchResult, waits: Sequence[float]) -> Picture:
    stalls = stalled(waits)
    period = _period(result)
    lost = sum(waits[place] for place in stalls)
    times = f"more than {_STALL:g} times as long as the median"
    alt = f"Of {counted(len(waits), 'wait')} in a row, {counted(len(stalls), 'is', 'are')} {times}"
    alt += f" and take{'s' if len(stalls) == 1 else ''} {percent(lost / sum(waits))} of all waiting" if lost else ""
    alt += f"; a stall comes every {period} batches." if period else "."
    if not stalls:
        alt = f"Of {counted(len(waits), 'wait')} in a row none is {times}."
    scale = seconds_scale([max(waits) or 1.0])
    step = -(-len(waits) // _ROWS)
    parts = [range(begin, min(begin + step, len(waits))) for begin in range(0, len(waits), step)]
    cells = tuple(
        (_from_to(part), scale.number(max(waits[place] for place in part)), "stall" if {*part} & {*stalls} else "")
        for part in parts
    )
    headers = ("iteration", f"{'longest ' if step > 1 else ''}wait, {scale.unit}", "")
    table = Table("", headers, cells, frozenset({0, 1}), (f"stall: {times}.",) if stalls else ()).filled()
    return picture(
        "waits", "distribution", "How long each iteration waits for its batch", alt, table,
        lambda sheet: _draw_waits(sheet, waits, set(stalls), period),
    )  # fmt: skip


def _from_to(part: range) -> str:
    return f"{part[0]}" if len(part) == 1 else f"{part[0]}–{part[-1]}"


def stalled(waits: Sequence[float]) -> list[int]:
    """The places of the waits that are far longer than the median."""
    ordered = sorted(waits)
    limit = max(_STALL * ordered[len(ordered) // 2], _LEAST_STALL_S)
    return [place for place, one in enumerate(waits) if one > limit]


def _period(result: WatchResult) -> int | None:
    """Every how many batches a stall comes, by the causes of the account."""
    causes = result.account.causes if result.account is not None else ()
    found = (one.values.get("period") for one in causes if one.code == "periodic-stalls")
    return next((int(one) for one in found if isinstance(one, int | float)), None)


def _draw_waits(sheet: Sheet, waits: Sequence[float], stalls: set[int], period: int | None) -> float:
    scale = seconds_scale([max(waits) or 1.0])
    up = Axis(0.0, 1.08 * max(waits) or 1.0, 176.0, 30.0)
    left, right = 50.0, sheet.width - 8
    across = Axis(0.0, float(len(waits)), left, right)
    draw_y(sheet, up, left, right, in_unit(scale))
    sheet.words(0, 12, f"wait, {scale.unit}", "muted", size=SMALL)
    step = max(1, -(-len(waits) // _COLUMNS))
    for begin in range(0, len(waits), step):
        part = range(begin, min(begin + step, len(waits)))
        longest = max(part, key=lambda place: waits[place])
        x, y = across.at(begin), up.at(waits[longest])
        width = across.at(begin + step) - x
        stall = longest in stalls
        tip = f"iteration {longest}: {seconds(waits[longest])}" if stall else ""
        bar = min(0.7 * width, _BAR)
        sheet.add(Box(x + (width - bar) / 2, y, bar, up.begin - y, "1" if stall else "7", tip=tip))
    if period and stalls:
        _mark_period(sheet, waits, sorted(stalls), period, across)
    below = draw_x(sheet, across, up.begin, up.begin, lambda value: f"{value:g}", "iteration after start-up")
    return below


def _mark_period(sheet: Sheet, waits: Sequence[float], stalls: list[int], period: int, across: Axis) -> None:
    """A bracket between two stalls that lie one period apart."""
    pair = next(((one, one + period) for one in stalls if one + period in stalls), None)
    text = f"a stall every {period} batches"
    if pair is None:
        sheet.words(across.end, 12, text, "1", size=SMALL, anchor="end")
        return
    begin, end = (across.at(place + 0.5) for place in pair)
    sheet.line((begin, 27), (begin, 21), (end, 21), (end, 27), colour="1", width=1.2)
    half = width_of(text, SMALL) / 2
    sheet.words(min(max((begin + end) / 2, 60 + half), sheet.width - half), 15, text, "1", size=SMALL, anchor="middle")


def _samples(result: WatchResult, found: Sequence[TimesPoint]) -> Picture:
    of_loop = [one for one in result.slowest if one.loader in result.loaders_in_loop]
    longest = max((one.s for one in of_loop), default=max(one.most_s for one in found))
    of_one = _median(result, result.loaders_in_loop[0]) if len(result.loaders_in_loop) == 1 else None
    usual = of_one or sorted(one.p50_s for one in found)[len(found) // 2]
    times = f", {longest / usual:.1f} times the median" if usual else ""
    alt = f"A sample usually takes {seconds(usual)}; the longest took {seconds(longest)}{times}."
    return _over_run("samples", "How long a sample takes, over the run", alt, "sample", found)


def _waits_over_run(result: WatchResult, found: Sequence[TimesPoint]) -> Picture:
    usual = result.wait_p50_s
    if usual is None:
        usual = sorted(one.p50_s for one in found)[len(found) // 2]
    longest = max(found, key=lambda one: one.most_s)
    alt = f"An iteration usually waits {seconds(usual)}; the longest wait is about {seconds(longest.most_s)}, "
    alt += f"around {seconds(longest.at_s)} after the begin of the run."
    return _over_run("waits-over-run", "How long an iteration waits, over the run", alt, "iteration", found)


def _over_run(name: str, title: str, alt: str, what: str, found: Sequence[TimesPoint]) -> Picture:
    scale = seconds_scale([max(one.most_s for one in found)])
    cells = tuple(
        (seconds(one.at_s), *(scale.number(value) for value in (one.p50_s, one.p95_s, one.most_s)), f"{one.number:,}")
        for one in found
    )
    headers = ("at", f"median, {scale.unit}", "95 %", "longest", f"{what}s")
    note = "Durations are counted in classes, so each figure of a part of the run is within 6 %."
    table = Table("", headers, cells, frozenset(range(5)), (note,))
    return picture(name, "distribution", title, alt, table, lambda sheet: _draw_over_run(sheet, what, found))


def _median(result: WatchResult, loader: int) -> float | None:
    """What a sample of a loader usually takes, over the whole run."""
    return next((one.sample_p50_s for one in result.loaders if one.loader == loader), None)


def _draw_over_run(sheet: Sheet, what: str, found: Sequence[TimesPoint]) -> float:
    longest = max(one.most_s for one in found) or 1.0
    scale = seconds_scale([longest])
    up = Axis(0.0, 1.06 * longest, 180.0, 26.0)
    left, right = 50.0, sheet.width - 8
    across = Axis(found[0].at_s, found[-1].at_s or 1.0, left, right)
    draw_y(sheet, up, left, right, in_unit(scale))
    sheet.words(0, 12, f"{scale.unit} {'an' if what[0] in 'aeiou' else 'a'} {what}", "muted", size=SMALL)
    x = [across.at(one.at_s) for one in found]
    most, most_of, half = ([up.at(one[row]) for one in found] for row in (3, 2, 1))
    base = up.begin
    sheet.add(Area(((x[0], base), *zip(x, most, strict=True), (x[-1], base)), "7", 0.16))
    sheet.add(Area(((x[0], base), *zip(x, most_of, strict=True), (x[-1], base)), "0", 0.22))
    sheet.line(*zip(x, most, strict=True), colour="7")
    sheet.line(*zip(x, half, strict=True), colour="0", width=2)
    end = right
    for text, colour in (("longest", "7"), ("95 % are below", "5"), ("median", "0")):
        sheet.words(end, 12, text, colour, size=SMALL, anchor="end")
        end -= width_of(text, SMALL) + 14
    run = seconds_scale([across.high])
    return draw_x(sheet, across, up.begin, up.begin, in_unit(run), f"{run.unit} after the begin of the run")


def _slowest(result: WatchResult, found: Sequence[SlowSample]) -> Picture:
    usual = _median(result, found[0].loader)
    times = f", {found[0].s / usual:.1f} times the median" if usual else ""
    alt = f"The slowest sample, {brief(found[0].name)}, took {seconds(found[0].s)}{times}."
    scale = seconds_scale([found[0].s])
    cells = tuple(
        (
            shortened(printable(one.name), _LONGEST),
            str(one.loader),
            "" if one.worker is None else str(one.worker),
            scale.number(one.s),
        )
        for one in found
    )
    table = Table("", ("sample", "loader", "worker", scale.unit), cells, frozenset({1, 2, 3}))
    return picture(
        "slowest", "distribution", "The slowest samples", alt, table, lambda sheet: _draw_slowest(sheet, found, usual)
    )


def _draw_slowest(sheet: Sheet, found: Sequence[SlowSample], usual: float | None) -> float:
    laid = rows(sheet, [Row(one.name, seconds(one.s)) for one in found], 16.0 if usual else 2.0, step=22.0, most=0.5)
    axis = reaching([one.s for one in found], laid.begin, laid.end)
    scale = seconds_scale([axis.high])
    below = draw_below(sheet, axis, laid, in_unit(scale), scale.unit)
    for one, y in zip(found, laid.middles, strict=True):
        sheet.add(Box(axis.begin, y - 6, axis.at(one.s) - axis.begin, 12, "4", tip=f"{one.name}: {seconds(one.s)}"))
    if usual:
        at = axis.at(usual)
        draw_mark(sheet, laid, at, "ink", dashed=True)
        text = f"median {seconds(usual)}"
        sheet.words(min(at, sheet.width - width_of(text, SMALL)), 11, text, size=SMALL)
    return below
