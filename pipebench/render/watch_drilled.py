"""Renders the lines of the user's own code inside a large row. Pure; names and source from data become inert text."""

from __future__ import annotations

import os
from collections.abc import Iterable

from pipebench.render.cells import Table
from pipebench.results.drilled import DrilledLine, DrilledRow
from pipebench.units import counted, percent, printable

_FEW = 4  # rows in the short report


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
    return Table(title, ("line", "share", "95 % interval"), tuple(rows), frozenset({1, 2}))


def _cells(what: str, share: float, low: float, high: float) -> tuple[str, ...]:
    return what, percent(share), f"{percent(low).removesuffix(' %')}–{percent(high)}"


def _described(one: DrilledLine) -> str:
    if not one.file:
        return "pipebench's own work in the row"
    function = printable(one.function)
    file = printable(os.path.basename(one.file))
    if not one.line:
        return f"{function} ({file}), smaller lines"
    place = f"{function} ({file}:{one.line})"
    if one.calls:
        return f"{place} → {printable(one.calls)}"
    return f"{place}: {printable(one.text)}" if one.text else place


def all_drilled(rows: Iterable[DrilledRow], loaders: set[int], *, full: bool) -> list[Table]:
    """A table for each row of these loaders."""
    return [drilled(one, full=full) for one in rows if one.loader in loaders]
