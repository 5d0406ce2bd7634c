"""Turns parts of text into inert HTML: prose, lists, code and tables. What is too long is shortened, and says so."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence

from pipebench.render.cells import Table
from pipebench.render.layout import Line, Part, shortened
from pipebench.units import counted, printable

MOST_ROWS = 100  # of a table, and of a list
MOST_BYTES = 100_000  # of the parts of one section
_LONGEST_CELL, _LONGEST_WORD, _LONGEST_LINE = 160, 200, 4_000  # characters
_LEFT_OUT = "The rest is left out of this page: the report as JSON has it."
_CODE = re.compile(r"`([^`\n]+)`")
_BAR = re.compile(r"[█▉▊▋▌▍▎▏]+")
_LEVELS = re.compile(r"[▁▂▃▄▅▆▇█][▁▂▃▄▅▆▇█ ]*")
_MOVE = re.compile(r"^((?:Next|Then):)")
_FOLLOWS = "→ "  # marks the row to follow


def escaped(text: str) -> str:
    """Text that is inert between tags and in a quoted attribute."""
    return html.escape(printable(text), quote=True)


def named(text: str) -> str:
    """A name or a title, inert. If it is too long, its middle is left out."""
    return escaped(_short(text, _LONGEST_CELL))


def prose(text: str) -> str:
    """A sentence. What stands between backticks is code. A word that is too long loses its middle."""
    words = " ".join(_short(word, _LONGEST_WORD) for word in text[:_LONGEST_LINE].split(" "))
    more = "…" if len(text) > _LONGEST_LINE else ""
    return _CODE.sub(r"<code>\1</code>", escaped(words)) + more


def _short(name: str, most: int) -> str:
    """`shortened`, which is slow, for the few names that need it: no character is wider than two columns."""
    return name if 2 * len(name) <= most else shortened(name, most)


def blocks(parts: Iterable[Part], heading: int = 3, most: int = MOST_BYTES) -> str:
    """The parts as blocks of HTML. `heading` is the level of their headings. More than `most` bytes are left out."""
    made: list[str] = []
    room = most
    for block in _blocks([*parts], heading):
        room -= len(block.encode())
        if room < 0:
            made.append(f'<p class="note">{_LEFT_OUT}</p>')
            break
        made.append(block)
    return "\n".join(made)


def _blocks(parts: Sequence[Part], heading: int) -> Iterator[str]:
    """Indented lines that follow one another are a list, or code if the line above ends with a colon."""
    lines = [Line(one) if isinstance(one, str) else one for one in parts]
    place = 0
    while place < len(lines):
        one = lines[place]
        if isinstance(one, Table):
            yield table(one)
        elif _indented(one):
            after = lines[place - 1] if place else None
            end = next((at for at in range(place, len(lines)) if not _indented(lines[at])), len(lines))
            yield _listed([line.text for line in lines[place:end] if isinstance(line, Line)], after)
            place = end - 1
        elif one.text:
            yield _paragraph(one, lines[place + 1] if place + 1 < len(lines) else None, heading)
        place += 1


def _indented(one: Line | Table) -> bool:
    return isinstance(one, Line) and (one.text.startswith(" ") or bool(one.hanging))


def _paragraph(one: Line, below: Line | Table | None, heading: int) -> str:
    """A line of prose. It is a heading if it is bold, or if a list follows and it is no sentence."""
    title = one.style == "bold" or (below is not None and _indented(below) and one.text[-1:] not in ".:")
    if title:
        return f"<h{heading}>{prose(one.text)}</h{heading}>"
    kind = f' class="{escaped(one.style)}"' if one.style else ""
    said = _MOVE.sub(r"<strong>\1</strong>", prose(one.text))
    return f"<p{kind}>{said}</p>"


def _listed(lines: Sequence[str], above: Line | Table | None) -> str:
    if isinstance(above, Line) and above.text.endswith(":"):
        text = "\n".join(escaped(_short(line.removeprefix("  "), _LONGEST_LINE)) for line in lines[:MOST_ROWS])
        return f"<pre>{text}</pre>"
    kind = ' class="notes"' if isinstance(above, Table) else ""
    left = len(lines) - MOST_ROWS
    shown = [*lines[:MOST_ROWS], *([_LEFT_OUT] if left > 0 else [])]
    return f"<ul{kind}>{''.join(map(_item, shown))}</ul>"


def _item(line: str) -> str:
    levels = ' class="bar" aria-hidden="true"' if _LEVELS.fullmatch(line.strip()) else ""
    return f"<li{levels}>{prose(line.strip())}</li>"


def table(one: Table) -> str:
    """Title, table and notes. The first column names the rows, and numeric columns are aligned right."""
    bars = {index for index in range(len(one.headers)) if any(_BAR.fullmatch(row[index]) for row in one.rows)}
    kinds = ["bar" if index in bars else "number" if index in one.numeric else "" for index in range(len(one.headers))]
    head = "".join(map(_head, one.headers, kinds))
    rows = "".join(_row(row, kinds) for row in one.rows[:MOST_ROWS])
    left = len(one.rows) - MOST_ROWS
    notes = [*one.notes, *([f"{counted(left, 'more row')}: the report as JSON has them."] if left > 0 else [])]
    caption = f"<caption>{prose(one.title)}</caption>" if one.title else ""
    return (
        f'<div class="wide" role="region" tabindex="0" aria-label="{escaped(one.title[:_LONGEST_CELL] or "Figures")}">'
        f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
        + (f'<ul class="notes">{"".join(f"<li>{prose(note)}</li>" for note in notes)}</ul>' if notes else "")
    )


def _head(cell: str, kind: str) -> str:
    quoted = f' class="{kind}"' if kind else ""
    return f'<th scope="col"{quoted}>{named(cell)}</th>' if cell else f"<td{quoted}></td>"


def _row(cells: Sequence[str], kinds: Sequence[str]) -> str:
    follow = ' class="follow"' if cells[0].startswith(_FOLLOWS) else ""
    made = []
    for index, (cell, kind) in enumerate(zip(cells, kinds, strict=True)):
        tag, scope = ("th", ' scope="row"') if index == 0 and cell else ("td", "")
        quoted = f' class="{kind}"' if kind else ""
        hidden = ' aria-hidden="true"' if kind == "bar" else ""
        made.append(f"<{tag}{scope}{quoted}{hidden}>{named(cell)}</{tag}>")
    return f"<tr{follow}>{''.join(made)}</tr>"
