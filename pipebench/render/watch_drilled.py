"""Renders the lines of the user's own code inside a large row. Pure; names and source from data become inert text."""

from __future__ import annotations

import os
import re

from pipebench.render.cells import Table
from pipebench.render.layout import Part, begun, shortened
from pipebench.render.watch_verdict import known_line, often
from pipebench.results.drilled import DrilledLine, DrilledRow, NeedlessCall, known
from pipebench.results.watched import WatchResult
from pipebench.units import code_place, counted, did_needlessly, percent, printable

_FEW = 4  # rows in the short report
_MATTERS = 0.15  # of the row
_PLACE = re.compile(r"(?P<function>.*?) \((?P<file>[^()]*):(?P<line>\d+)\)(?P<rest>.*)", re.DOTALL)
_TIMES = re.compile(r", runs (about |more than |)([\d,]+) times an? \w+(?=: |$)")
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
    title = f"Lines of {name} ({percent(row.worker_share)} of making samples), from {row.looks:,} stack samples"
    return Table(title, ("line", "share", "95 % interval"), tuple(rows), frozenset({1, 2}), shorten=_fitting)


def _fitting(cell: str, most: int) -> str:
    """A cell in at most `most` columns, with the whole line number.

    First it says in fewer words how often the line runs. Then a text loses its end, and names their middle.
    """
    from rich.cells import cell_len

    found = _PLACE.fullmatch(cell)
    if found is None or cell_len(cell) <= most:
        return shortened(cell, most)
    part, calls = found.groupdict(), found["rest"].startswith(" →")
    part["rest"] = _TIMES.sub(r", \1\2×", part["rest"], count=1)
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
    times = f", {often(one)}" if one.runs else ""
    if one.calls:
        return f"{place} → {printable(one.calls)}{times}"
    return f"{place}{times}: {printable(one.text)}" if one.text else f"{place}{times}"


def all_drilled(result: WatchResult, loaders: set[int], *, full: bool) -> list[Part]:
    """A table for each large row of these loaders, each with what is written in place of its slow lines.

    The short report has the largest of them. What the next move says is not said here.
    """
    move = result.next_move
    said = {move.title} if move is not None else set()
    made: list[Part] = []
    for row in result.drilled:
        if row.loader in loaders and row.lines:
            made += [drilled(row, full=full), *_known(row, said)[: None if full else 1]]
    known_by = {most.needless for row in result.drilled for most in _slow(row, said).values()}
    known_by |= {move.needless} if move is not None else set()
    told = [one for one in result.needless if one.loader in loaders and one.share and one not in known_by]
    return [*made, *(f"{_needless(one)} {_INSTEAD[one.what]}" for one in told[: None if full else 1])]


_INSTEAD = {
    "each": "Keep its result.",
    "arguments": "Keep its results by their arguments.",
    "object": "Keep the object, unless something changes it.",
    "before": "Keep its result for as long as the sample is made.",
    "cut": "Cut its input first, where that is enough.",
}


def _needless(one: NeedlessCall) -> str:
    """A sentence on what is needless, and one on what it takes."""
    return f"{did_needlessly(*one.told)} {_without(one)}"


def _without(one: NeedlessCall) -> str:
    most = "at most" if one.what == "cut" else "about"
    return f"Without that, batches would take {most} {percent(one.share)} less."


def _known(row: DrilledRow, said: set[str]) -> list[str]:
    """A sentence for each kind of slow line that has a share which matters, with the largest of its lines."""
    found = _slow(row, said)
    return [_said_of(found[share]) for share in sorted(found, reverse=True)]


def _slow(row: DrilledRow, said: set[str]) -> dict[float, DrilledLine]:
    """By their share, the largest line of each kind that is slow."""
    kinds = known((one.share, one) for one in row.lines if one.title not in said)
    return {share: most for share, most, _ in kinds if share >= _MATTERS}


def _said_of(one: DrilledLine) -> str:
    sentence = known_line(one)
    less = f" {_without(one.needless)}" if one.needless is not None and one.needless.share else ""
    return f"{sentence[0].upper()}{sentence[1:]}{less}"
