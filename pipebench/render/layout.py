"""How text is laid out: prose that wraps at words and tables that fit the width, for a terminal or as Markdown. Pure.

A document is a list of parts, one under another: a table, a line of prose (`""` is a blank line; a line that begins
with spaces keeps them when it wraps), the most important part first.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Iterable, Sequence
from typing import Any

from pipebench.render.cells import Table

Part = str | Table
WIDTH = 110  # columns, where nobody says how many there are
_GAP = 3  # columns between two cells
_LEAST = 12  # columns that a name keeps however narrow the terminal is


def text(parts: Iterable[Part], *, width: int = WIDTH, colour: bool = False) -> str:
    """The parts for a terminal, with no line longer than `width`; the first one is bold where there is `colour`."""
    screen, out = console(width, colour)
    for place, part in enumerate(parts):
        if isinstance(part, Table):
            _table(screen, fitted(part, width), width)
        else:
            _say(screen, part, width, "" if place else "bold")
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    return "\n".join(_no_doubled_blanks(lines)).rstrip("\n") + "\n"


def _table(screen: Any, one: Table, width: int) -> None:
    """A table with its notes; where even its narrowest form does not fit, its rows stand one below another."""
    screen.print("")
    if _columns(one) <= width:
        screen.print(laid_out(one))
    else:
        _say(screen, one.title, width, "bold")
        for row in one.rows:
            _say(screen, row[0], width)
            for name, cell in zip(one.headers[1:], row[1:], strict=True):
                _say(screen, f"  {name}: {cell}" if name else f"  {cell}", width) if cell else None
    for note in one.notes:
        _say(screen, f"  {note}", width)


def _say(screen: Any, line: str, width: int, style: str = "") -> None:
    for one in wrapped(line, width):
        screen.print(styled(one, style))


def wrapped(line: str, width: int, hanging: str = "") -> list[str]:
    """The line broken at words; those after the first have the indent of the first and `hanging` before them."""
    body = line.lstrip(" ")
    if not body:
        return [""]
    first = " " * (len(line) - len(body))
    rest = first + hanging
    screen, _ = console(width, False)
    found = [one.plain.rstrip() for one in styled(body).wrap(screen, width - len(rest))]
    return [f"{rest if place else first}{one}" for place, one in enumerate(found)]


def _no_doubled_blanks(lines: Sequence[str]) -> list[str]:
    return [line for place, line in enumerate(lines) if line or (place and lines[place - 1])]


def console(width: int, colour: bool) -> tuple[Any, io.StringIO]:
    """rich's console over a buffer, and the buffer; without colour it writes no escape sequence."""
    from rich.console import Console

    out = io.StringIO()
    return Console(
        file=out, width=width, force_terminal=colour, no_color=not colour, highlight=False, legacy_windows=False
    ), out


def styled(words: str, style: str = "") -> Any:
    """Text in which rich finds no markup."""
    from rich.text import Text

    return Text(words, style=style)


def laid_out(one: Table) -> Any:
    """Title and cells; `numeric` columns are aligned right, and no cell is wrapped."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Group
    from rich.table import Table as RichTable

    laid = RichTable(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for index, header in enumerate(one.headers):
        laid.add_column(styled(header), justify="right" if index in one.numeric else "left", no_wrap=True)
    for row in one.rows:
        laid.add_row(*(styled(cell) for cell in row))
    return Group(styled(one.title, "bold"), laid) if one.title else laid


def fitted(one: Table, width: int) -> Table:
    """The table in `width` columns: without as many spare columns as it must, then with its longest names shortened.

    Figures are never shortened, so that the result can still be too wide.
    """
    for narrower in one.narrower():
        one = narrower
        if _columns(one) <= width:
            break
    while (over := _columns(one) - width) > 0:
        widths = _widths(one)
        names = sorted((widths[index] for index in range(len(widths)) if index not in one.numeric), reverse=True)
        if not names or names[0] <= _LEAST:
            break
        others = min(names[1], names[0] - 1) if len(names) > 1 else _LEAST
        most = max(_LEAST, names[0] - over, others)
        rows = tuple(
            tuple(cell if index in one.numeric else shortened(cell, most) for index, cell in enumerate(row))
            for row in one.rows
        )
        one = dataclasses.replace(one, rows=rows)
    return one


def _widths(one: Table) -> list[int]:
    from rich.cells import cell_len

    return [max(cell_len(row[index]) for row in (one.headers, *one.rows)) for index in range(len(one.headers))]


def _columns(one: Table) -> int:
    widths = _widths(one)
    return sum(widths) + _GAP * (len(widths) - 1)


def shortened(name: str, most: int) -> str:
    """A name in at most `most` columns: its middle is left out where it is longer, as in `data/cla…0042.jpg`."""
    from rich.cells import cell_len

    if cell_len(name) <= most:
        return name
    head, tail = _first(name, (most - 1) // 2), _first(name[::-1], most // 2)
    return f"{head}…{tail[::-1]}"


def _first(name: str, most: int) -> str:
    from rich.cells import cell_len

    taken = 0
    while taken < len(name) and cell_len(name[: taken + 1]) <= most:
        taken += 1
    return name[:taken]


def markdown(parts: Iterable[Part]) -> str:
    """The parts as paragraphs and tables of Markdown; the first one is bold, indented ones are items of a list."""
    made: list[str] = []
    listed: list[str] = []
    for part in parts:
        if isinstance(part, str) and part.startswith(" "):
            listed.append(f"- {inert(part.strip())}")
            continue
        made += ["\n".join(listed)] if listed else []
        listed = []
        if isinstance(part, Table):
            made += markdown_table(part)
        elif part:
            made.append(inert(part) if made else f"**{inert(part)}**")
    made += ["\n".join(listed)] if listed else []
    return "\n\n".join(made) + "\n"


def markdown_table(one: Table, level: int = 3) -> list[str]:
    """Title, table and notes, as paragraphs of Markdown."""
    rule = ["---:" if index in one.numeric else "---" for index in range(len(one.headers))]
    lines = [_row(one.headers), _row(tuple(rule), escape=False), *(_row(row) for row in one.rows)]
    notes = ["\n".join(f"- {inert(note)}" for note in one.notes)] if one.notes else []
    title = [f"{'#' * level} {inert(one.title)}"] if one.title else []
    return [*title, "\n".join(lines), *notes]


def fenced(words: str) -> str:
    """Text in a block that Markdown leaves alone; no line of it can end the block."""
    return f"````text\n{words.replace('````', '` ` ` `')}````\n"


def _row(cells: tuple[str, ...], escape: bool = True) -> str:
    return "| " + " | ".join(inert(cell) if escape else cell for cell in cells) + " |"


def inert(words: str) -> str:
    """Text that Markdown shows as it is."""
    return "".join("\\" + char if char in "\\`*_{}[]<>#|~!" else char for char in words)
