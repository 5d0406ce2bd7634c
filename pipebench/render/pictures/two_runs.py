"""Where two watched runs went: a bar for each on one axis, with each part in its colour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipebench.render.cells import Table
from pipebench.render.pictures import Picture
from pipebench.render.pictures.axes import Row, draw_below, in_unit, reaching, rows
from pipebench.render.pictures.drawing import picture
from pipebench.render.pictures.sheet import SMALL, Box, Sheet, on, width_of, wrapped_chips
from pipebench.render.pictures.whole_run import COLOURS
from pipebench.render.watch_account import short
from pipebench.results.before_after import BeforeAfter
from pipebench.results.report import Report
from pipebench.units import percent, seconds, seconds_scale

_LEAST = 0.02  # of the longer run: smaller parts are one together
_REST = "7"
_SIDES = ("base", "head")
_Part = tuple[str, tuple[float, float]]


def pictures(report: Report) -> Iterator[Picture]:
    if report.before_after is not None and (parts := _parts(report.before_after)):
        yield _picture(parts)


def _parts(found: BeforeAfter) -> list[_Part]:
    """The kinds of rows of the accounts, in the order of a run; the small ones are one, at the end."""
    spent = {one.name: (one.base, one.head) for one in found.rows if one.group == "account"}
    named = [(name, [spent[code] for code in codes if code in spent]) for name, codes in short(spent)]
    every = [(name, (sum(one[0] for one in own), sum(one[1] for one in own))) for name, own in named if own]
    longest = max((sum(one[side] for _, one in every) for side in (0, 1)), default=0.0)
    large = [one for one in every if max(one[1]) >= _LEAST * longest]
    small = [one for name, one in every if (name, one) not in large]
    rest = [("smaller parts", (sum(one[0] for one in small), sum(one[1] for one in small)))] if small else []
    return [*large, *rest] if longest else []


def _picture(parts: Sequence[_Part]) -> Picture:
    whole = [sum(one[side] for _, one in parts) for side in (0, 1)]
    name, (before, after) = max(parts, key=lambda part: abs(part[1][1] - part[1][0]))
    alt = f"The base took {seconds(whole[0])} and the head {seconds(whole[1])}."
    if before != after:
        alt += f" What changed most is {name}: {seconds(before)} before, {seconds(after)} after."
    scale = seconds_scale([max(whole)])
    cells = tuple((name, *map(scale.number, pair)) for name, pair in [*parts, ("the whole run", (whole[0], whole[1]))])
    table = Table("", ("part", f"base, {scale.unit}", f"head, {scale.unit}"), cells, frozenset({1, 2}))
    title = "Where the two runs went"
    return picture("two-runs", "run", title, alt, table, lambda sheet: _draw(sheet, parts, whole))


def _draw(sheet: Sheet, parts: Sequence[_Part], whole: Sequence[float]) -> float:
    laid = rows(sheet, [Row(side, seconds(whole[place])) for place, side in enumerate(_SIDES)], 2.0, step=34.0)
    axis = reaching(whole, laid.begin, laid.end)
    scale = seconds_scale([axis.high])
    below = draw_below(sheet, axis, laid, in_unit(scale), f"{scale.unit} of the run")
    for place, y in enumerate(laid.middles):
        begin = 0.0
        for name, pair in parts:
            x, end = axis.at(begin), axis.at(begin + pair[place])
            share = percent(pair[place] / whole[place]) if whole[place] else ""
            tip = f"{_SIDES[place]}, {name}: {seconds(pair[place])}, {share}"
            colour = COLOURS.get(name, _REST)
            sheet.add(Box(x, y - 11, end - x, 22, colour, tip=tip))
            if end - x > width_of(share, SMALL, bold=True) + 8:
                sheet.words((x + end) / 2, y + 4, share, on(colour), size=SMALL, anchor="middle", bold=True)
            if begin:
                sheet.line((x, y - 11), (x, y + 11), colour="page", width=1.2)
            begin += pair[place]
    names: dict[str, list[str]] = {}
    for name, _ in parts:
        names.setdefault(COLOURS.get(name, _REST), []).append(name)
    return wrapped_chips(sheet, [(colour, ", ".join(own)) for colour, own in names.items()], below + 6)
