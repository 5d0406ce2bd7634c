"""A forest of speed-ups: a row for each, with its interval, on one axis of ratios around the line at 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipebench.render.cells import spoken
from pipebench.render.pictures.axes import Row, draw_below, draw_mark, of_ratios, rows
from pipebench.render.pictures.sheet import SMALL, Dot, Sheet, note, width_of
from pipebench.stats import Speedup

_FARTHEST = 3.0  # times the largest speed-up: how far an interval lengthens the axis


@dataclass(frozen=True)
class Tree:
    """One row. `hollow`: predicted, or not told from 1. `claim` is another's figure beside it, as a diamond.

    `value` replaces its words. Without an interval the row is an upper limit.
    """

    name: str
    found: Speedup | None = None
    colour: str = "0"
    hollow: bool = False
    strong: bool = False
    claim: float | None = None
    most: float | None = None
    value: str = ""


def draw(
    sheet: Sheet, trees: Sequence[Tree], unit: str, bound: tuple[float, str] | None = None, key: str = ""
) -> float:
    """Draws the rows with an axis below. `bound` is a line that no row can cross, with its name."""
    words = [Row(one.name, one.value or (spoken(one.found) if one.found else ""), one.strong) for one in trees]
    laid = rows(sheet, words, 16.0 if bound else 2.0)
    axis = of_ratios(_reach(trees, bound), laid.begin, laid.end)
    below = draw_below(sheet, axis, laid, lambda value: f"{value:g}×", unit)
    draw_mark(sheet, laid, axis.at(1), "ink", width=1.0)
    if bound is not None:
        at, text = axis.at(bound[0]), f"{bound[1]} {bound[0]:.2f}×"
        draw_mark(sheet, laid, at, "1", dashed=True)
        half = width_of(text, SMALL) / 2
        sheet.words(max(half, min(at, sheet.width - half)), 11, text, "1", size=SMALL, anchor="middle")
    for one, y in zip(trees, laid.middles, strict=True):
        tip = f"{one.name}: {one.value or (spoken(one.found) if one.found else '')}"
        if one.found is not None:
            low, high = axis.at(one.found.low), axis.at(one.found.high)
            sheet.line((low, y), (high, y), colour=one.colour, width=2.5 if one.strong else 1.6, dashed=one.hollow)
            sheet.add(Dot(axis.at(one.found.speedup), y, one.colour, hollow=one.hollow, tip=tip))
        elif one.most is not None:
            sheet.line((axis.at(1), y), (axis.at(one.most), y), colour=one.colour, dashed=True)
            sheet.add(Dot(axis.at(one.most), y, one.colour, hollow=True, tip=tip))
        if one.claim is not None:
            sheet.add(
                Dot(axis.at(one.claim), y, "1", 5.5, hollow=True, diamond=True, tip=f"the author: {one.claim:.2f}×")
            )
    return note(sheet, key, below) if key else below


def _reach(trees: Sequence[Tree], bound: tuple[float, str] | None) -> list[float]:
    """What the axis holds: every speed-up, and intervals as far as they leave the speed-ups apart."""
    values = [one.found.speedup for one in trees if one.found]
    values += [value for one in trees for value in (one.claim, one.most) if value is not None]
    values += [bound[0]] if bound else []
    low, high = min(values, default=1.0), max(values, default=1.0)
    ends = [end for one in trees if one.found for end in (one.found.low, one.found.high)]
    return [*values, *(min(max(end, low / _FARTHEST), high * _FARTHEST) for end in ends)]
