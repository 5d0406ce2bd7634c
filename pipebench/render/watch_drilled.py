"""Renders the lines of the user's own code inside a large row. Pure; names and source from data become inert text."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from pipebench.render.cells import Table
from pipebench.render.layout import Part, begun, shortened
from pipebench.render.watch_verdict import known_line
from pipebench.results.drilled import DrilledLine, DrilledRow, known
from pipebench.results.next_move import NextMove
from pipebench.units import code_place, counted, percent, printable

_FEW = 4  # rows in the short report
_MATTERS = 0.15  # of the row
_PLACE = re.compile(r"(?P<function>.*?) \((?P<file>[^()]*):(?P<line>\d+)\)(?P<rest>.*)", re.DOTALL)
# columns that a name, and the text of a line, keep as long as others can lose some; and a name at least
_NAME, _TEXT, _LEAST = 12, 24, 6


def drilled(row: DrilledRow, *, full: bool) -> Table:
    """The lines of one row, the largest first; in the short report only the first few."""
    most = len(row.lines) if full or len(row.lines) <= _FEW + 1 else _FEW
    rows = [_cells(_described(one), one.share, one.low, one.high) for one in row.lines[:most]]
    if rest := row.lines[most:]:
        rows.append((counted(len(rest), "more line"), percent(sum(one.share for one in rest)), ""))
    if row.unread:
        rows.append(("not readable", percent(row.unread / row.looks), ""))
    name = printable(row.stage)
    title = f"Lines of {name} ({percent(row.worker_share)} of worker time), from {row.looks:,} stack samples"
    return Table(title, ("line", "share", "95 % interval"), tuple(rows), frozenset({1, 2}), shorten=_fitting)


def _fitting(cell: str, most: int) -> str:
    """A cell in at most `most` columns, with the whole line number: a text loses its end, and names their middle."""
    from rich.cells import cell_len

    found = _PLACE.fullmatch(cell)
    if found is None or cell_len(cell) <= most:
        return shortened(cell, most)
    part, calls = found.groupdict(), found["rest"].startswith(" →")
    names = [("function", _NAME), ("file", _NAME)]
    losing = [*names, ("rest", _TEXT)] if calls else [("rest", _TEXT), *names]
    losing += [("function", _LEAST), ("file", _LEAST), ("rest", 0)]
    for name, least in losing:
        over = cell_len(_joined(part)) - most
        if over > 0 and (room := max(least, cell_len(part[name]) - over)) < cell_len(part[name]):
            part[name] = begun(part[name], room) if name == "rest" else shortened(part[name], room)
    made = _joined(part)
    return made if cell_len(made) <= most else shortened(cell, most)


def _joined(part: dict[str, str]) -> str:
    return f"{part['function']} ({part['file']}:{part['line']}){part['rest']}"


def _cells(what: str, share: float, low: float, high: float) -> tuple[str, ...]:
    return what, percent(share), f"{percent(low).removesuffix(' %')}–{percent(high)}"


def _described(one: DrilledLine) -> str:
    if not one.file:
        return "pipebench's own work in the row"
    function = printable(one.function)
    file = printable(os.path.basename(one.file))
    if not one.line:
        return f"{function} ({file}), smaller lines"
    place = f"{function} ({code_place(one.file, one.line)})"
    if one.calls:
        return f"{place} → {printable(one.calls)}"
    return f"{place}: {printable(one.text)}" if one.text else place


def all_drilled(rows: Iterable[DrilledRow], loaders: set[int], move: NextMove | None, *, full: bool) -> list[Part]:
    """A table for each row of these loaders, each with what is written in place of its slow lines.

    The short report has the largest of them. What the next move says is not said here.
    """
    said = {move.title} if move is not None else set()
    made: list[Part] = []
    for one in rows:
        if one.loader in loaders:
            made += [drilled(one, full=full), *_known(one, said)[: None if full else 1]]
    return made


def _known(row: DrilledRow, said: set[str]) -> list[str]:
    """A sentence for each kind of slow line that has a share which matters, with the largest of its lines."""
    shares: list[tuple[float, str]] = []
    for share, most in known((one.share, one) for one in row.lines if one.title not in said):
        if share >= _MATTERS:
            sentence = known_line(most)
            shares.append((share, sentence[0].upper() + sentence[1:]))
    return [sentence for _, sentence in sorted(shares, reverse=True)]
