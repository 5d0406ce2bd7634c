"""Throughput against workers: measured points, predictions with their band, the bound, and what consumers take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pipebench.render.cells import Table
from pipebench.render.pictures import Picture
from pipebench.render.pictures.axes import Axis, draw_y, in_unit, reaching
from pipebench.render.pictures.drawing import brief, picture, slug
from pipebench.render.pictures.sheet import SMALL, Area, Dot, Point, Sheet, fitted, width_of, wrapped_chips
from pipebench.results.advice import Advice
from pipebench.results.loading import LoaderRow
from pipebench.results.plan import Plan, Prediction
from pipebench.results.report import Report
from pipebench.results.watched import WatchResult
from pipebench.units import Scale, counted, printable, width

_FAR = 1.6  # times the highest point: levels above it are only named
_LEVELS = 3
_TRAINED = "float32"  # of the samples that the training takes
_DOTS = 24  # rungs: more have no dots, and a band in place of intervals
_KINDS = {"map": ("0", "single files"), "packed": ("2", "packed copy"), "webdataset": ("3", "shards"),
          "ready": ("7", "samples ready: hand-off alone")}  # fmt: skip


@dataclass(frozen=True)
class Rung:
    """The samples per second with so many workers."""

    workers: int
    rate: float
    low: float
    high: float


@dataclass(frozen=True)
class Series:
    """Rungs that belong together. Predicted ones are hollow, with a band; a single one has its interval."""

    name: str
    colour: str
    rungs: tuple[Rung, ...]
    predicted: bool = False


@dataclass(frozen=True)
class Level:
    """A rate that does not depend on the workers: a consumer, or a bound that no loader can cross."""

    name: str
    rate: float
    colour: str = "ink"


def pictures(report: Report) -> Iterator[Picture]:
    yield from _of_lab(report)
    if report.advice is not None and report.watched is not None:
        yield from _of_advice(report.advice, report.watched)
    elif report.watched is not None:
        yield from _of_watch(report.watched)
    if report.plan is not None and 0 <= report.plan.best < len(report.plan.predictions):
        yield from _of_plan(report.plan)


def _of_lab(report: Report) -> Iterator[Picture]:
    every = [one for one in report.loader or () if one.images_per_s and one.low and one.high]
    for dtype in dict.fromkeys(one.dtype for one in every):
        yield from _of_dtype(report, dtype, [one for one in every if one.dtype == dtype])


def _of_dtype(report: Report, dtype: str, rows: Sequence[LoaderRow]) -> Iterator[Picture]:
    found = [Series(name, colour, _rungs(rows, kind)) for kind, (colour, name) in _KINDS.items()]
    series = [one for one in found if one.rungs]
    if not series:
        return
    levels = [Level(printable(one.name), one.images_per_s, "1") for one in report.consumers]
    usual = dtype == _TRAINED
    bound = report.training.bound.bound if report.training and usual else None
    if bound is not None:
        levels.insert(0, Level("training with its batches ready", bound.samples_per_s, "1"))
    best = max(series[0].rungs, key=lambda one: one.rate)
    alt = f"Of the numbers of workers tried, {fastest_tried(series[0].rungs)} images/s"
    fewest = series[0].rungs[0]
    more = f"; {fewest.workers} feed{'s' if fewest.workers == 1 else ''} {fewest.rate:,.0f}"
    alt += f"{more if fewest != enough(series[0].rungs) else ''}."
    above = [one for one in levels if one.rate > best.rate]
    if above:
        least = min(above, key=lambda one: one.rate)
        alt += f" {brief(least.name[:1].upper() + least.name[1:])} takes {least.rate:,.0f}."
    name, title = "loader", "What loading feeds, by workers"
    if not usual:
        name, title = slug(name, dtype), f"{title}, as {printable(dtype)}"
    yield _picture(name, title, alt, series, levels, "images/s")


def _rungs(rows: Sequence[LoaderRow], kind: str) -> tuple[Rung, ...]:
    found = [
        Rung(one.workers, one.images_per_s or 0.0, one.low or 0.0, one.high or 0.0)
        for one in rows
        if one.dataset == kind
    ]
    return tuple(sorted(found, key=lambda one: one.workers))


def _of_advice(advice: Advice, watched: WatchResult) -> Iterator[Picture]:
    here = _here(watched, advice.loader)
    if here is None:
        return
    now, tried = here.rate, [here]
    predicted: list[Rung] = []
    for one in advice.findings:
        workers, found = one.change.settings.get("num_workers"), one.gain or one.predicted
        if found is not None and isinstance(workers, int) and set(one.change.settings) == {"num_workers"}:
            rung = Rung(workers, now * found.speedup, now * found.low, now * found.high)
            (tried if one.gain else predicted).append(rung)
    if len(tried) + len(predicted) < 2:
        return
    series = [Series("tried", "0", _sorted(tried))]
    if predicted:
        series.append(Series("predicted", "2", _sorted(predicted), predicted=True))
    levels = [Level("no wait for data", advice.most * now, "1")] if advice.most else []
    alt = f"With {counted(here.workers, 'worker')} the training takes {now:,.0f} samples/s."
    alt += f" Of the numbers tried, {fastest_tried(tried)}." if len(tried) > 1 else ""
    yield _picture("workers-tried", "Training speed by workers", alt, series, levels, "samples/s")


def _here(watched: WatchResult, number: int | None) -> Rung | None:
    """What a loop takes with the workers that its loader has; None if that is not known."""
    loader = next((one for one in watched.loaders if one.loader == number), None)
    if loader is None or not loader.s_per_iteration or not loader.batch_size:
        return None
    now = loader.batch_size / loader.s_per_iteration
    return Rung(loader.workers, now, now, now)


def _of_watch(watched: WatchResult) -> Iterator[Picture]:
    """The present number of workers, and the one that the next move predicts."""
    move, here = watched.next_move, _here(watched, watched.verdict.loader)
    if here is None or move is None or move.fair is None or move.to_workers is None:
        return
    now, found = here.rate, move.fair
    rung = Rung(move.to_workers, now * found.speedup, now * found.low, now * found.high)
    alt = (
        f"With {counted(here.workers, 'worker')} the loop takes {now:,.0f} samples/s; with {rung.workers} it is "
        f"predicted to take {rung.rate:,.0f} ({rung.low:,.0f} to {rung.high:,.0f}). That was not tried."
    )
    series = [Series("measured", "0", (here,)), Series("predicted", "2", (rung,), predicted=True)]
    yield _picture("workers-predicted", "Training speed by workers", alt, series, [], "samples/s")


def enough(tried: Sequence[Rung]) -> Rung:
    """The fastest number, or the smallest one whose interval reaches that of the fastest."""
    best = max(tried, key=lambda one: one.rate)
    return min((one for one in tried if one.high >= best.low), key=lambda one: (one.workers, -one.rate))


def fastest_tried(tried: Sequence[Rung]) -> str:
    """The same in words."""
    best, least = max(tried, key=lambda one: one.rate), enough(tried)
    if least.workers >= best.workers:
        return f"{best.workers} is the fastest: {best.rate:,.0f}"
    return f"{least.workers} is the smallest that is not measurably slower than the fastest: {least.rate:,.0f}"


def _of_plan(plan: Plan) -> Iterator[Picture]:
    depth = plan.chosen.prefetch_factor
    rungs = [_predicted(one) for one in plan.predictions if one.prefetch_factor == depth]
    if not rungs:
        return
    here = Rung(plan.workers, plan.samples_per_s, plan.samples_per_s, plan.samples_per_s)
    series = [Series("predicted", "2", _sorted(rungs), predicted=True), Series("measured here", "0", (here,))]
    levels = [Level("the consumers", plan.wanted, "1")] if plan.wanted else []
    best = plan.chosen
    found = best.samples_per_s
    reach = f"{found.low:,.0f} to {found.high:,.0f}" if best.checked else "never checked"
    alt = (
        f"{counted(best.workers, 'worker')} are predicted to feed {found.value:,.0f} samples/s ({reach}); "
        f"{brief(best.limit)} limits them."
    )
    yield _picture("plan", "Predicted throughput, by workers", alt, series, levels, "samples/s")


def _predicted(one: Prediction) -> Rung:
    found = one.samples_per_s
    return Rung(one.workers, found.value, *((found.low, found.high) if one.checked else (found.value, found.value)))


def _sorted(rungs: Sequence[Rung]) -> tuple[Rung, ...]:
    return tuple(sorted(rungs, key=lambda one: one.workers))


def _picture(name: str, title: str, alt: str, series: Sequence[Series], levels: Sequence[Level], unit: str) -> Picture:
    cells = [(one.name, str(rung.workers), f"{rung.rate:,.0f}", _spread(rung)) for one in series for rung in one.rungs]
    cells += [(one.name, "", f"{one.rate:,.0f}", "") for one in levels]
    table = Table("", ("", "workers", unit, ""), tuple(cells), frozenset({1, 2, 3}))
    return picture(name, "throughput", title, alt, table, lambda sheet: _draw(sheet, series, levels, unit))


def _spread(one: Rung) -> str:
    return width(one.rate, one.low, one.high) if one.high > one.low else ""  # else its interval is not known


def _draw(sheet: Sheet, series: Sequence[Series], levels: Sequence[Level], unit: str) -> float:
    most = max(rung.high for one in series for rung in one.rungs)
    # A hand-off alone is far above what is loaded; it must not press the rest to the ground.
    main = max(rung.high for one in series if one.colour != "7" or len(series) == 1 for rung in one.rungs)
    near = [one for one in levels if one.rate <= _FAR * main][:_LEVELS]
    far = [one for one in levels if one not in near]
    top = 50.0 if far else 34.0
    height = 210.0
    left, right = 56.0, sheet.width - 14
    limit = max([min(most, _FAR * main), *(one.rate for one in near)])
    up = replace(reaching([limit], 0, 0), begin=top + height, end=top)
    workers = [rung.workers for one in series for rung in one.rungs]
    across = Axis(min(0, *workers), max(*workers, 1) * 1.06, left, right)
    sheet.words(0, 12, unit, "muted", size=SMALL)
    draw_y(sheet, up, left, right, in_unit(Scale("", 1.0)))
    _workers_axis(sheet, across, sorted(set(workers)), up.begin)
    for level in near:
        sheet.line((left, up.at(level.rate)), (right, up.at(level.rate)), colour=level.colour, width=1.4, dashed=True)
        text = fitted(f"{level.name}: {level.rate:,.0f}", right - left - 8, SMALL)
        sheet.words(left + 4, up.at(level.rate) - 4, text, level.colour, size=SMALL)
    for one in series:
        _series(sheet, one, across, up)
    if far:
        least = min(far, key=lambda one: one.rate)
        more = f" ({len(far) - 1} more take more)" if len(far) > 1 else ""
        sheet.words(right, 29, f"↑ {least.name}: {least.rate:,.0f}{more}", "1", size=SMALL, anchor="end",
                    room=right - left)  # fmt: skip
    if len(series) == 1 and not series[0].predicted:
        return up.begin + 40
    return wrapped_chips(sheet, [(one.colour, one.name) for one in series], up.begin + 40)


def _workers_axis(sheet: Sheet, across: Axis, numbers: Sequence[int], y: float) -> None:
    last = 0.0
    for one in numbers:
        text, at = str(one), across.at(one)
        half = width_of(text, SMALL) / 2
        if at - half > last:
            sheet.line((at, y), (at, y + 4), colour="muted")
            sheet.words(at, y + 17, text, "muted", size=SMALL, anchor="middle")
            last = at + half + 4
    sheet.words(across.end, y + 33, "workers", "muted", size=SMALL, anchor="end")


def _series(sheet: Sheet, one: Series, across: Axis, up: Axis) -> None:
    places: list[Point] = [(across.at(rung.workers), up.at(rung.rate)) for rung in one.rungs]
    many = len(places) > _DOTS
    banded = (one.predicted or many) and len(places) > 1
    if banded:
        lows = [(across.at(rung.workers), up.at(rung.low)) for rung in one.rungs]
        highs = [(across.at(rung.workers), up.at(rung.high)) for rung in one.rungs]
        sheet.add(Area((*highs, *reversed(lows)), one.colour, 0.16))
    if len(places) > 1:
        sheet.line(*places, colour=one.colour, width=1.8, dashed=one.predicted)
    for rung, (x, y) in zip(one.rungs, places, strict=True):
        if many:
            break
        if not banded and rung.high > rung.low:
            sheet.line((x, up.at(rung.low)), (x, up.at(rung.high)), colour=one.colour, width=1.6)
        beyond = rung.rate > up.high
        tip = f"{one.name}, {counted(rung.workers, 'worker')}: {rung.rate:,.0f}"
        sheet.add(Dot(x, y, one.colour, 3.8, hollow=one.predicted or beyond, tip=tip))
        if beyond:
            sheet.words(x - 7, y + 15, f"↑ {rung.rate:,.0f}", one.colour, size=SMALL, anchor="end")
