"""Lays out text for a terminal or as Markdown: prose wraps at words, and tables fit the width. Pure.

A document is a list of parts, one below another: tables and lines of prose, the most important first. `""` is a blank
line. A line that begins with spaces keeps this indent when it wraps.
"""

from __future__ import annotations

import dataclasses
import io
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pipebench.render import signs
from pipebench.render.cells import Table


@dataclass(frozen=True)
class Line:
    """A line of prose in a style of rich. If it wraps, `hanging` stands before its second and later parts.

    An `address` stays whole, so that it can be followed and copied, also where it is wider than the page.
    """

    text: str
    style: str = ""
    hanging: str = ""
    address: bool = False


Part = str | Line | Table


@dataclass(frozen=True)
class Spare:
    """Parts that a short page leaves out whole (see `screen`). Of several, those with the lowest `order` go first."""

    parts: tuple[Part, ...]
    order: int = 1


Sparing = Part | Spare
Section = tuple[str, Sequence[Sparing]]
"""What some parts are about, and these parts. The names are those of `pictures.SECTIONS`, "next" and "notes"."""
WIDTH = 110  # columns, if the caller does not give a width
_GAP = 3  # columns between two cells
_LEAST = 12  # the columns that a long name keeps, even on a very narrow terminal


def flat(parts: Iterable[Sparing]) -> list[Part]:
    """All parts, one below another."""
    return [inner for one in parts for inner in (one.parts if isinstance(one, Spare) else (one,))]


def text(
    parts: Iterable[Sparing], *, width: int = WIDTH, colour: bool = False, lacking: frozenset[str] = frozenset()
) -> str:
    """The parts for a terminal. Every line but an address fits in `width` columns. `colour` adds only styles.

    `lacking` are the signs that the terminal cannot show; others stand for them (see `signs`).
    """
    screen, out = console(width, colour)

    def say(line: Line) -> None:
        if line.address:
            screen.print(_styled(line.text, line.style), no_wrap=True, overflow="ignore", crop=False)
            return
        for one in wrapped(line.text, width, line.hanging):
            screen.print(_styled(one, line.style))

    for part in (_plain(one, lacking) if lacking else one for one in flat(parts)):
        if isinstance(part, Table):
            _table(screen, part.filled(), width, say)
        else:
            say(Line(part) if isinstance(part, str) else part)
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    return signs.drawn("\n".join(_no_doubled_blanks(lines)).rstrip("\n") + "\n", lacking)


def _plain(part: Part, lacking: frozenset[str]) -> Part:
    """The part without the signs that are lacking."""

    def plain(text: str) -> str:
        return signs.plain(text, lacking)

    if isinstance(part, str):
        return plain(part)
    if isinstance(part, Line):
        return dataclasses.replace(part, text=plain(part.text))
    return dataclasses.replace(
        part,
        title=plain(part.title),
        headers=tuple(map(plain, part.headers)),
        rows=tuple(tuple(map(plain, row)) for row in part.rows),
        notes=tuple(map(plain, part.notes)),
    )


def _table(screen: Any, one: Table, width: int, say: Callable[[Line], None]) -> None:
    """Prints title, rows and notes. If even the shortened table is too wide, the cells of a row stand in a column."""
    say(Line(""))
    if one.title:
        say(Line(one.title, "bold"))
    form = fitted(one, width) if one.rows else None
    if form is not None:
        screen.print(_laid_out(form))
    else:
        for row in one.rows:
            say(Line(row[0]))
            for name, cell in zip(one.headers[1:], row[1:], strict=True):
                say(Line(f"  {name}: {cell}" if name else f"  {cell}")) if cell else None
    for note in one.notes:
        say(Line(f"  {note}", "dim"))


def wrapped(line: str, width: int, hanging: str = "") -> list[str]:
    """The lines that result from breaking `line` at words. A word that is wider than the page loses its middle.

    The second and later lines begin with the indent of the first, then `hanging`.
    """
    body = line.lstrip(" ")
    if not body:
        return [""]
    first = " " * (len(line) - len(body))
    rest = first + hanging
    room = width - len(rest)
    body = " ".join(shortened(word, room) for word in body.split(" "))
    begin = _broken(body, width - len(first))[0]
    left = body[len(begin) :].lstrip(" ")
    return [f"{first}{begin}", *(f"{rest}{one}" for one in _broken(left, room) if left)]


def _broken(words: str, room: int) -> list[str]:
    screen, _ = console(room, False)
    return [one.plain.rstrip() for one in _styled(words).wrap(screen, room)]


def _no_doubled_blanks(lines: Sequence[str]) -> list[str]:
    return [line for place, line in enumerate(lines) if line or (place and lines[place - 1])]


def console(width: int, colour: bool) -> tuple[Any, io.StringIO]:
    """A console of rich that writes to a buffer, and the buffer. Without `colour` it writes no escape sequences.

    In a notebook, rich would also show each line below the cell.
    """
    from rich.console import Console

    out = io.StringIO()
    return Console(
        file=out, width=width, force_terminal=colour, force_jupyter=False, no_color=not colour, highlight=False,
        legacy_windows=False,
    ), out  # fmt: skip


def _styled(words: str, style: str = "") -> Any:
    """Text of rich's in which markup has no effect."""
    from rich.text import Text

    return Text(words, style=style)


def _laid_out(one: Table) -> Any:
    """The cells in columns, as a table of rich. `numeric` columns are aligned right, and cells do not wrap."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable

    laid = RichTable(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for index, header in enumerate(one.headers):
        laid.add_column(_styled(header), justify="right" if index in one.numeric else "left", no_wrap=True)
    for row in one.rows:
        laid.add_row(*(_styled(cell) for cell in row))
    return laid


def fitted(one: Table, width: int) -> Table | None:
    """The widest form of the table that fits: first spare columns are left out, then the longest names are shortened.

    Figures are never shortened. None if the table is too wide even with shortened names, or if two rows with different
    names would then look alike.
    """
    form = one
    for form in one.narrower():
        if _columns(form) <= width:
            return form
    known = _different_names(form)
    while (over := _columns(form) - width) > 0:
        widths = _widths(form)
        names = sorted((widths[index] for index in range(len(widths)) if index not in form.numeric), reverse=True)
        if not names or names[0] <= _LEAST:
            return None
        second = min(names[1], names[0] - 1) if len(names) > 1 else _LEAST
        form = _with_names_of(form, max(_LEAST, names[0] - over, second))
    return form if _different_names(form) == known else None


def _different_names(one: Table) -> tuple[int, int]:
    """How many rows differ in their names, and how many in the first one."""
    names = {tuple(cell for index, cell in enumerate(row) if index not in one.numeric) for row in one.rows}
    return len(names), len({row[0] for row in one.rows})


def _with_names_of(one: Table, most: int) -> Table:
    shorten = one.shorten or shortened
    rows = tuple(
        tuple(cell if index in one.numeric else shorten(cell, most) for index, cell in enumerate(row))
        for row in one.rows
    )
    headers = tuple(cell if index in one.numeric else shortened(cell, most) for index, cell in enumerate(one.headers))
    return dataclasses.replace(one, headers=headers, rows=rows)


def _widths(one: Table) -> list[int]:
    from rich.cells import cell_len

    return [max(cell_len(row[index]) for row in (one.headers, *one.rows)) for index in range(len(one.headers))]


def _columns(one: Table) -> int:
    widths = _widths(one)
    return sum(widths) + _GAP * (len(widths) - 1)


def shortened(name: str, most: int) -> str:
    """A name in at most `most` columns. If it is longer, its middle is left out, as in `data/cla…0042.jpg`."""
    from rich.cells import cell_len

    if cell_len(name) <= most:
        return name
    head, tail = _first(name, (most - 1) // 2), _first(name[::-1], most // 2)
    return f"{head}…{tail[::-1]}"


def at_word(text: str, most: int) -> str:
    """Words in at most `most` columns. If they are more, the last are left out; settings and one word lose the middle.

    >>> at_word("a sampler that shuffles", 16), at_word("num_workers=4, pin_memory=True", 16)
    ('a sampler that …', 'num_wor…ory=True')
    """
    from rich.cells import cell_len

    words = text.split(" ")
    if cell_len(text) <= most or "=" in text:
        return shortened(text, most)
    begins = [" ".join(words[:count]) for count in range(1, len(words))]
    kept = [one for one in begins if most / 2 <= cell_len(one) + 2 <= most]
    return f"{kept[-1]} …" if kept else shortened(text, most)


def begun(text: str, most: int) -> str:
    """A text in at most `most` columns. If it is longer, its end is left out."""
    from rich.cells import cell_len

    return text if cell_len(text) <= most else f"{_first(text, most - 1)}…"


def _first(name: str, most: int) -> str:
    from rich.cells import cell_len

    taken = 0
    while taken < len(name) and cell_len(name[: taken + 1]) <= most:
        taken += 1
    return name[:taken]


def markdown(parts: Iterable[Sparing]) -> str:
    """The parts as paragraphs and tables of Markdown. Bold lines stay bold. Indented lines become items of a list."""
    made: list[str] = []
    listed: list[str] = []
    for part in [*flat(parts), ""]:
        line = Line(part) if isinstance(part, str) else part
        if isinstance(line, Line) and line.text.startswith(" "):
            listed.append(f"- {inert(line.text.strip())}")
            continue
        made += ["\n".join(listed)] if listed else []
        listed = []
        if isinstance(line, Table):
            made += _markdown_table(line)
        elif line.text:
            made.append(f"**{inert(line.text)}**" if line.style == "bold" else inert(line.text))
    return "\n\n".join(made) + "\n"


def _markdown_table(one: Table) -> list[str]:
    """Title, table and notes, as paragraphs of Markdown."""
    one = one.filled()
    rule = ["---:" if index in one.numeric else "---" for index in range(len(one.headers))]
    lines = [_row(one.headers), _row(tuple(rule), escape=False), *(_row(row) for row in one.rows)]
    notes = ["\n".join(f"- {inert(note)}" for note in one.notes)] if one.notes else []
    title = [f"### {inert(one.title)}"] if one.title else []
    return [*title, "\n".join(lines), *notes]


def _row(cells: tuple[str, ...], escape: bool = True) -> str:
    return "| " + " | ".join(inert(cell) if escape else cell for cell in cells) + " |"


_MENTION = re.compile(r"@(?=[\w/])")


def inert(words: str) -> str:
    """The words with escapes, so that Markdown shows them as they are. A name after an `@` calls nobody."""
    escaped = "".join("\\" + char if char in "\\`*_{}[]<>#|~!" else char for char in words)
    return _MENTION.sub("@<!-- -->", escaped)
