"""Axes and rows of names: where on a sheet a value lies."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipebench.render.pictures.sheet import SIZE, SMALL, Sheet, fitted, width_of
from pipebench.units import Scale, printable

# of an axis of ratios, the first ones first
_LOG_TICKS = (1, 2, 0.5, 1.5, 5, 3, 10, 0.2, 0.7, 1.2, 0.8, 4, 20, 50, 0.1, 1.1, 0.9, 100, 0.05, 7, 200, 1.3, 1.7, 2.5)


@dataclass(frozen=True)
class Axis:
    """Values from `low` to `high` lie between the pixels `begin` and `end`; values outside lie at the nearer end.

    With `log`, equal factors are equally far apart.
    """

    low: float
    high: float
    begin: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        share = self._share(min(max(value, self.low), self.high))
        return self.begin + share * (self.end - self.begin)

    def _share(self, value: float) -> float:
        if self.high <= self.low:
            return 0.0
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self, apart: float = 70.0) -> list[float]:
        """Round values on the axis, at least about `apart` pixels from each other."""
        if self.log:
            return self._log_ticks(apart)
        least = (self.high - self.low) / max(1, int(abs(self.end - self.begin) / apart))
        if least <= 0:
            return [self.low]
        size = 10.0 ** math.floor(math.log10(least))
        step = next(one * size for one in (1, 2, 5, 10) if one * size >= least * (1 - 1e-9))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [step * one for one in range(first, last + 1)]

    def _log_ticks(self, apart: float) -> list[float]:
        kept: list[float] = []
        for one in _LOG_TICKS:
            if self.low <= one <= self.high and all(abs(self.at(one) - self.at(other)) >= apart for other in kept):
                kept.append(one)
        return sorted(kept)


def reaching(values: Sequence[float], begin: float, end: float) -> Axis:
    """An axis from 0 to a little beyond the largest value."""
    return Axis(0.0, 1.04 * max(values, default=0.0) or 1.0, begin, end)


def of_ratios(values: Sequence[float], begin: float, end: float) -> Axis:
    """An axis of ratios that holds 1 and all of these, and is never so short that noise looks large."""
    low, high = min(*values, 1.0, 0.95), max(*values, 1.0, 1.25)
    return Axis(max(low, 0.05) / 1.04, min(high, 200.0) * 1.04, begin, end, log=True)


def draw_x(sheet: Sheet, axis: Axis, top: float, bottom: float, name: Callable[[float], str], unit: str = "") -> float:
    """Light lines at round values, and their names below. Returns the height that was needed."""
    for one in _ticks(sheet, axis):
        sheet.line((axis.at(one), top), (axis.at(one), bottom))
    return _names(sheet, axis, bottom, name, unit)


def _ticks(sheet: Sheet, axis: Axis) -> list[float]:
    return axis.ticks(52.0 if sheet.narrow else 70.0)


def _names(sheet: Sheet, axis: Axis, bottom: float, name: Callable[[float], str], unit: str) -> float:
    last = 0.0
    for one in _ticks(sheet, axis):
        text, at = name(one), axis.at(one)
        half = width_of(text, SMALL) / 2
        if at - half >= last and at + half <= sheet.width + 2:
            sheet.words(at, bottom + 14, text, "muted", size=SMALL, anchor="middle")
            last = at + half + 6
    if not unit:
        return bottom + 20
    sheet.words(axis.end, bottom + 29, fitted(unit, sheet.width, SMALL), "muted", size=SMALL, anchor="end")
    return bottom + 35


def draw_y(sheet: Sheet, axis: Axis, left: float, right: float, name: Callable[[float], str]) -> None:
    """Light lines at round values, and their names on the left. The axis goes upwards: `begin` is its lower end."""
    for one in axis.ticks(38.0):
        sheet.line((left, axis.at(one)), (right, axis.at(one)))
        sheet.words(left - 6, axis.at(one) + 4, name(one), "muted", size=SMALL, anchor="end")


def in_unit(scale: Scale) -> Callable[[float], str]:
    """A number of an axis, in this scale, without its unit."""
    return lambda value: f"{value / scale.factor:,.6g}"


@dataclass(frozen=True)
class Row:
    """The name of a row, and its figure in words. A `strong` row is the one that matters."""

    name: str
    value: str = ""
    strong: bool = False


@dataclass(frozen=True)
class Rows:
    """Where rows lie: their middles, the pixels between which they are drawn, and their upper and lower end."""

    middles: tuple[float, ...]
    begin: float
    end: float
    top: float
    bottom: float


def draw_mark(sheet: Sheet, laid: Rows, x: float, colour: str, *, width: float = 1.5, dashed: bool = False) -> None:
    """A line through all rows. On a phone it leaves out the words above them."""
    ends = [(y - 11, y + 11) for y in laid.middles] if sheet.narrow else [(laid.top, laid.bottom)]
    for top, bottom in ends:
        sheet.line((x, top), (x, bottom), colour=colour, width=width, dashed=dashed)


def draw_below(sheet: Sheet, axis: Axis, laid: Rows, name: Callable[[float], str], unit: str) -> float:
    """The same for rows. On a phone the lines leave out the words above the rows."""
    if not sheet.narrow:
        return draw_x(sheet, axis, laid.top, laid.bottom, name, unit)
    for one in _ticks(sheet, axis):
        draw_mark(sheet, laid, axis.at(one), "grid", width=1.0)
    return _names(sheet, axis, laid.bottom, name, unit)


def rows(sheet: Sheet, found: Sequence[Row], top: float = 0.0, *, step: float = 26.0, most: float = 0.36) -> Rows:
    """Writes names on the left and figures on the right; on a phone, both above their row.

    Names take at most the share `most` of the width.
    """
    if sheet.narrow:
        return _narrow(sheet, found, top)
    left = min(
        most * sheet.width, max((width_of(printable(one.name), SIZE, one.strong) for one in found), default=0.0) + 4
    )
    right = max((width_of(one.value, SIZE, one.strong) for one in found), default=0.0)
    begin, end = left + 12, sheet.width - (right + 14 if right else 8)
    middles = tuple(top + step * (place + 0.5) for place in range(len(found)))
    for one, y in zip(found, middles, strict=True):
        sheet.words(0, y + 4, one.name, bold=one.strong, room=left)
        if one.value:
            sheet.words(sheet.width, y + 4, one.value, "ink" if one.strong else "muted", anchor="end", bold=one.strong)
    return Rows(middles, begin, end, top, top + step * len(found))


def _narrow(sheet: Sheet, found: Sequence[Row], top: float) -> Rows:
    step = 42.0
    middles = tuple(top + step * place + 29 for place in range(len(found)))
    for place, one in enumerate(found):
        y = top + step * place + 14
        room = sheet.width - width_of(one.value, SMALL) - 10
        sheet.words(0, y, one.name, bold=one.strong, room=room)
        if one.value:
            colour = "ink" if one.strong else "muted"
            sheet.words(sheet.width, y, one.value, colour, size=SMALL, anchor="end", bold=one.strong)
    return Rows(middles, 6.0, sheet.width - 6.0, top, top + step * len(found))
