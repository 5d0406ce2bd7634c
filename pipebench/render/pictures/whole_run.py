"""Where the whole run went: one bar that adds up, and below it each part at its place in the bar."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pipebench.render.cells import Table
from pipebench.render.pictures import Picture
from pipebench.render.pictures.axes import Axis
from pipebench.render.pictures.drawing import picture
from pipebench.render.pictures.sheet import SIZE, Box, Sheet, note, on, width_of
from pipebench.render.watch_account import kinds, title
from pipebench.results.account import Account
from pipebench.results.report import Report
from pipebench.units import percent, seconds, seconds_scale

_LEAST = 0.01  # of the run: smaller parts are one together
COLOURS = {  # of the rows of a short account
    "forward and backward": "0", "data and forward": "0", "backward": "0", "optimiser": "5", "waiting for batches": "1",
    "sampler": "4", "receiving, unpickling": "4", "pinning": "4", "host to device": "4", "start-up of passes": "3",
    "end of passes": "3", "validation loops": "2", "functions of --span": "6", "preparing batches": "6",
}  # fmt: skip
_REST = "7"
_BAR, _PART = 34.0, 13.0


@dataclass(frozen=True)
class _Part:
    name: str
    s: float
    saved_s: float

    @property
    def colour(self) -> str:
        return COLOURS.get(self.name, _REST)


def pictures(report: Report) -> Iterator[Picture]:
    account = report.watched.account if report.watched is not None else None
    if account is None or not account.wall_s:
        return
    parts = _parts(account)
    if not parts:
        return
    what = title(account, part=report.advice is not None)
    yield picture(
        "run",
        "run",
        what,
        _finding(account, parts),
        _table(account, parts),
        lambda sheet: _draw(sheet, account, parts),
    )


def _parts(account: Account) -> list[_Part]:
    """The kinds of rows in the order of a run; those that are small are one together, at the end."""
    found = []
    for name, own in kinds(account.rows):
        if sum(one.s for one in own):
            found.append(_Part(name, sum(one.s for one in own), sum(one.recoverable_s or 0.0 for one in own)))
    small = [one for one in found if one.s < _LEAST * account.wall_s]
    if len(small) < 2:
        return found
    rest = _Part(f"{len(small)} smaller parts", sum(one.s for one in small), 0.0)
    return [*(one for one in found if one not in small), rest]


def _finding(account: Account, parts: list[_Part]) -> str:
    largest = sorted(parts, key=lambda one: -one.s)
    figures = [f"{seconds(one.s)} ({percent(one.s / account.wall_s)})" for one in largest[:3]]
    said = [f"{one.name} {took}{text}" for one, took, text in zip(largest, ("took ", "", ""), figures, strict=False)]
    most = max(parts, key=lambda one: one.saved_s)
    saves = f" Of {most.name}, a change could save about {seconds(most.saved_s)}." if most.saved_s else ""
    return f"Of the {seconds(account.wall_s)} of the run, {', '.join(said)}.{saves}"


def _table(account: Account, parts: list[_Part]) -> Table:
    scale = seconds_scale([account.wall_s])
    cells = [
        (
            one.name,
            scale.number(one.s),
            percent(one.s / account.wall_s, 1),
            scale.number(one.saved_s) if one.saved_s else "",
        )
        for one in parts
    ]
    cells.append(("the whole run", scale.number(account.wall_s), percent(1.0, 1), ""))
    return Table("", ("part", scale.unit, "share", "saves about"), tuple(cells), frozenset({1, 2, 3}))


def _draw(sheet: Sheet, account: Account, parts: list[_Part]) -> float:
    axis = Axis(0.0, sum(one.s for one in parts), 0.0, sheet.width)
    begin, y = 0.0, _BAR + 12
    for one in parts:
        x, end = axis.at(begin), axis.at(begin + one.s)
        share = percent(one.s / account.wall_s)
        sheet.add(Box(x, 0, end - x, _BAR, one.colour, tip=f"{one.name}: {seconds(one.s)}, {share}"))
        if end - x > width_of(share, SIZE, bold=True) + 8:
            sheet.words((x + end) / 2, _BAR / 2 + 4.5, share, on(one.colour), anchor="middle", bold=True)
        if begin:
            sheet.line((x, 0), (x, _BAR), colour="page", width=1.5)
        begin += one.s
    begin = 0.0
    for one in parts:
        y = _row(sheet, one, axis.at(begin), axis.at(begin + one.s), y)
        begin += one.s
    if any(one.saved_s for one in parts):
        y = note(sheet, "Pale: about what a change could save (predicted, not tried).", y + 2)
    return y


def _row(sheet: Sheet, one: _Part, x: float, end: float, top: float) -> float:
    """The part below its place in the bar, with its name beside it, or above it on a phone. Returns its lower end."""
    text = f"{one.name} · {seconds(one.s)}"
    if one.saved_s:
        text += f", about {seconds(one.saved_s)} less"
    needed = width_of(text, SIZE)
    y = top
    if sheet.narrow:
        sheet.words(max(0.0, min(x, sheet.width - needed)), top + 12, text, room=sheet.width)
        y = top + 17
    sheet.line((x, y - 4 if not sheet.narrow else y), (x, y + _PART), colour="grid")
    kept = x + (end - x) * (1.0 - min(1.0, one.saved_s / one.s))
    sheet.add(Box(x, y, kept - x, _PART, one.colour), Box(kept, y, end - kept, _PART, one.colour, opacity=0.45))
    if not sheet.narrow:
        if end + 8 + needed <= sheet.width:
            sheet.words(end + 8, y + 11, text)
        elif x - 8 - needed >= 0:
            sheet.words(x - 8, y + 11, text, anchor="end")
        else:
            sheet.words(0 if x < 8 else x, y + _PART + 13, text)
            y += 17
    return y + _PART + (8 if sheet.narrow else 9)
