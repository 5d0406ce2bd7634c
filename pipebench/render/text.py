"""A report for the terminal, or as Markdown."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from pipebench.render import tables, watched
from pipebench.render.cells import Table
from pipebench.results.report import Report

NARROW = 100  # columns; below, tables leave out what can be derived from the rest


def table(report: Report, *, width: int = 110, colour: bool = False) -> str:
    """The report as aligned tables, the verdict first; `colour` adds terminal styles and nothing else."""
    if report.watch is not None:
        return watched.text(report)
    console, out = _console(width, colour)

    def say(text: str, style: str = "") -> None:
        console.print(_text(text, style))

    say(tables.verdict(report), "bold")
    for line in tables.heading(report):
        say(line, "dim")
    for one in tables.all_tables(report):
        say("")
        console.print(_laid_out(one if width >= NARROW else one.narrowed()))
        for note in one.notes:
            say(f"  {note}", "dim")
    bad = tables.bad_samples(report)
    if bad:
        say(f"\nBad samples ({len({one.sample for one in report.bad_samples})})", "bold")
        for line in bad:
            say(f"  {line}")
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _console(width: int, colour: bool) -> tuple[Any, io.StringIO]:
    from rich.console import Console

    out = io.StringIO()
    return Console(
        file=out, width=width, force_terminal=colour, no_color=not colour, highlight=False, legacy_windows=False
    ), out


def _text(text: str, style: str = "") -> object:
    from rich.text import Text

    return Text(text, style=style)


def plain(lines: Sequence[str], one: Table, *, width: int = 110, colour: bool = False) -> str:
    """Some lines and a table with its notes, for the terminal."""
    console, out = _console(width, colour)
    for line in lines:
        console.print(_text(line, "bold" if line is lines[0] else "dim"))
    console.print(_laid_out(one))
    for note in one.notes:
        console.print(_text(f"  {note}"))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _laid_out(one: Table) -> object:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable
    from rich.text import Text

    laid = RichTable(title=Text(one.title, style="bold"), title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for index, header in enumerate(one.headers):
        laid.add_column(Text(header), justify="right" if index in one.numeric else "left", no_wrap=True)
    for row in one.rows:
        laid.add_row(*(Text(cell) for cell in row))
    return laid


def markdown(report: Report) -> str:
    """The report as Markdown, for a pull request or a document."""
    if report.watch is not None:
        return watched.markdown(report)
    parts = [tables.verdict(report), *tables.heading(report)]
    parts = [inert(part) for part in parts]
    for one in tables.all_tables(report):
        parts += markdown_table(one)
    bad = tables.bad_samples(report)
    parts += ["### Bad samples", "\n".join(f"- {inert(line)}" for line in bad)] if bad else []
    return "\n\n".join(parts) + "\n"


def markdown_table(one: Table, level: int = 3) -> list[str]:
    """Title, table and notes, as paragraphs of Markdown."""
    rule = ["---:" if index in one.numeric else "---" for index in range(len(one.headers))]
    lines = [_row(one.headers), _row(tuple(rule), escape=False), *(_row(row) for row in one.rows)]
    notes = ["\n".join(f"- {inert(note)}" for note in one.notes)] if one.notes else []
    return [f"{'#' * level} {inert(one.title)}", "\n".join(lines), *notes]


def _row(cells: tuple[str, ...], escape: bool = True) -> str:
    return "| " + " | ".join(inert(cell) if escape else cell for cell in cells) + " |"


def inert(text: str) -> str:
    """Text that Markdown shows as it is."""
    return "".join("\\" + char if char in "\\`*_{}[]<>#|~!" else char for char in text)
