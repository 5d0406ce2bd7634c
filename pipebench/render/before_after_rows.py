"""Rows of two reports held against each other, as text: their names, their figures, and what is told of them. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable

from pipebench.render.cells import gain, rounded
from pipebench.results.before_after import FEWER, MORE, SAME, Row
from pipebench.stats import Speedup
from pipebench.units import percent, printable, seconds

_LARGE = 0.5  # change: larger ones are given as a factor


def by_size(rows: Iterable[Row]) -> list[Row]:
    """The rows that changed most come first. A count that was 0, or is, changed most."""
    return sorted(rows, key=lambda one: -_change(one))


def _change(one: Row) -> float:
    if one.unit != "count" or one.base == one.head:
        return abs(math.log(one.ratio or 1.0))
    return abs(math.log(one.head / one.base)) if min(one.base, one.head) > 0 else math.inf


def with_gain(one: Row) -> str:
    return f"{name_of(one)} {times(one) if one.judgement is not None else f'{one.base:g} → {one.head:g}'}"


def times(one: Row) -> str:
    return rounded(one.judgement.head_over_base) if one.judgement is not None else ""


def least_told(over: Speedup) -> str:
    """The smallest change that could be told: a percentage, or a factor if it is large."""
    return percent(over.smallest_change) if over.smallest_change <= _LARGE else f"{1 + over.smallest_change:.1f}×"


_BARE = ("a step", "speed-up of head over base")  # groups whose names say all
_OF_GROUP = {"iteration": "an iteration, {}", "sample": "a sample, {}", "loop": "samples/s, {}"}


def name_of(one: Row) -> str:
    if one.group in _OF_GROUP:
        return printable(_OF_GROUP[one.group].format(one.name))
    return printable(one.name if one.group in _BARE else f"{one.group}/{one.name}")


def value_of(one: Row, value: float) -> str:
    if one.unit == "s":
        return seconds(value)
    if one.unit == "share":
        return percent(value, 1)
    if one.unit == "times":
        return f"{value:.2f}×"
    return f"{value:,.0f}/s" if one.unit == "per-s" else f"{value:g}"


def told_of(one: Row) -> str:
    if one.judgement is None:
        return {FEWER: "fewer", MORE: "more", SAME: "same"}.get(one.verdict, "")
    if not one.judgement.enough:
        return "~ (unknown)"
    over = one.judgement.head_over_base
    if over.told or over.smallest_change <= _LARGE:
        return gain(over)
    return f"~ (×÷{1 + over.smallest_change:.1f})"
