"""Makes a picture of what a function draws: once for a wide page, and once for a phone."""

from __future__ import annotations

from collections.abc import Callable

from pipebench.render.cells import Table
from pipebench.render.layout import shortened
from pipebench.render.pictures import Picture
from pipebench.render.pictures.sheet import NARROW, WIDE, Sheet
from pipebench.render.pictures.svg import drawn
from pipebench.units import printable

_LONGEST = 400  # characters of what a screen reader says
_LONG_NAME = 80  # columns of a name in it, so that the figures after it are said


def brief(name: str) -> str:
    """A name from data within a sentence: inert, and without its middle if it is long."""
    return shortened(printable(name), _LONG_NAME)


def slug(kind: str, name: str) -> str:
    """The name of a picture of which a report can have several."""
    return f"{kind}-" + "".join(char if char.isalnum() else "-" for char in printable(name))[:60]


def picture(
    name: str, section: str, title: str, alt: str, table: Table | None, draw: Callable[[Sheet], float]
) -> Picture:
    """`draw` puts marks on a sheet and returns the height that it needs."""
    said = printable(alt)
    short = said if len(said) <= _LONGEST else f"{said[: _LONGEST - 1].rstrip()}…"
    found = []
    for width in (WIDE, NARROW):
        sheet = Sheet(width)
        sheet.height = float(round(draw(sheet)))
        found.append(drawn(sheet, short if sheet.narrow else ""))  # the page labels the first one
    return Picture(name, section, printable(title), "".join(found), short, table)
