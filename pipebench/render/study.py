"""A study that was run, as a table of strings with its findings."""

from __future__ import annotations

from collections.abc import Iterable

from pipebench.render.cells import Table, gain
from pipebench.results.studies import Result, Row
from pipebench.units import Scale, printable, seconds_scale


def heading(result: Result) -> list[str]:
    """What was run, whose it is, and on what."""
    size = "" if result.size == "default" else f", {result.size} size"
    return [f"{result.title} ({result.study}{size})", result.source, result.setting]


def table(result: Result) -> Table:
    """One row for each step: its figure, how many times as fast as the row before, and what the author says."""
    scale = seconds_scale([row.seconds.median for row in result.rows if row.seconds])
    timed, counted = _shown(result)
    rows = [
        _cells(row, before, scale, timed, counted)
        for row, before in zip(result.rows, [None, *result.rows], strict=False)
    ]
    headers = ["step"]
    headers += [f"{scale.unit}/{result.unit}"] if timed else []
    headers += [f"sync points/{result.unit}"] if counted else []
    headers += ["× row before", "author's"]
    numeric = frozenset(range(1, len(headers)))
    return Table(result.title, tuple(headers), tuple(rows), numeric, tuple(_notes(result)))


def _shown(result: Result) -> tuple[bool, bool]:
    """Whether there are times, and whether there are counts."""
    return any(row.seconds for row in result.rows), any(row.count is not None for row in result.rows)


def _cells(row: Row, before: Row | None, scale: Scale, timed: bool, counted: bool) -> tuple[str, ...]:
    cells = [printable(row.name)]
    if timed:
        cells.append(scale.number(row.seconds.median) if row.seconds else "skipped" if row.skipped else "")
    if counted:
        cells.append(f"{row.count:g}" if row.count is not None else "")
    cells.append(_change(row, before))
    cells.append(f"{1 / row.author.ratio:.2f}×" + _over(row) if row.author.ratio else "")
    return tuple(cells)


def _over(row: Row) -> str:
    return f" (of {printable(row.author.over)})" if row.author.over else ""


def _change(row: Row, before: Row | None) -> str:
    if row.ratio is not None:
        return gain(row.ratio)
    if row.count is not None and before is not None and before.count is not None:
        return f"{row.count - before.count:+g}"
    return ""


def _notes(result: Result) -> Iterable[str]:
    for row in result.rows:
        yield f"{printable(row.name)}: " + "; ".join(printable(one) for one in _said(row) if one)
    yield from (f"→ {printable(one)}" for one in result.findings)


def _said(row: Row) -> Iterable[str]:
    yield row.what
    yield row.agreement
    if row.gives_up:
        yield f"gives up {row.gives_up}"
    if row.skipped:
        yield f"skipped: {row.skipped}"
    if row.author.says:
        yield f"author: {row.author.says}"
    yield from row.notes
