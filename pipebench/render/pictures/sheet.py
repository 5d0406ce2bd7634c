"""A sheet on which a picture is drawn, in pixels from its top left, and the marks on it. Plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from pipebench.render.layout import shortened
from pipebench.units import printable

WIDE, NARROW = 720.0, 360.0
SIZE, SMALL = 12.0, 11.0  # of words
_CELL = 0.56  # mean width of a character, as a share of its size: a little more than in the usual fonts
_DEEP = ("0", "3", "6")  # series that are dark on a light page
_BOLD = 1.12  # times as wide
Point = tuple[float, float]
Anchor = Literal["start", "middle", "end"]


@dataclass(frozen=True)
class Box:
    """A bar. `colour` is a series ("0" to "7") or a tone ("ink", "muted", "grid", "page").

    A hollow one has only an outline. `tip` is what the bar says when somebody points at it.
    """

    x: float
    y: float
    width: float
    height: float
    colour: str
    hollow: bool = False
    opacity: float = 1.0
    tip: str = ""


@dataclass(frozen=True)
class Line:
    """A line through some points."""

    points: tuple[Point, ...]
    colour: str
    width: float = 1.0
    dashed: bool = False


@dataclass(frozen=True)
class Area:
    """A filled shape."""

    points: tuple[Point, ...]
    colour: str
    opacity: float = 1.0


@dataclass(frozen=True)
class Dot:
    """A round mark; a hollow one stands for what was not measured, or not told. `sides` 4 makes it a diamond."""

    x: float
    y: float
    colour: str
    radius: float = 4.5
    hollow: bool = False
    diamond: bool = False
    tip: str = ""


@dataclass(frozen=True)
class Words:
    """Inert text. `x` is its begin, middle or end, and `y` is its base line."""

    x: float
    y: float
    text: str
    colour: str = "ink"
    size: float = SIZE
    anchor: Anchor = "start"
    bold: bool = False


Mark = Box | Line | Area | Dot | Words


@dataclass
class Sheet:
    """Marks in the order in which they are drawn, on a sheet for a wide page or for a phone."""

    width: float = WIDE
    height: float = 0.0
    marks: list[Mark] = field(default_factory=list)

    @property
    def narrow(self) -> bool:
        return self.width < WIDE

    def add(self, *marks: Mark) -> None:
        self.marks.extend(marks)

    def words(
        self,
        x: float,
        y: float,
        text: str,
        colour: str = "ink",
        *,
        size: float = SIZE,
        anchor: Anchor = "start",
        bold: bool = False,
        room: float | None = None,
    ) -> None:
        """Writes text from data or of ours, inert. If it is wider than `room`, its middle is left out."""
        shown = printable(text)
        if room is not None:
            shown = fitted(shown, room / _BOLD if bold else room, size)
        self.marks.append(Words(x, y, shown, colour, size, anchor, bold))

    def line(self, *points: Point, colour: str = "grid", width: float = 1.0, dashed: bool = False) -> None:
        self.marks.append(Line(tuple(points), colour, width, dashed))


def on(colour: str) -> str:
    """The tone of words on a bar of this colour: light or dark, what can be read better."""
    return "page" if colour in _DEEP else "dark"


def width_of(text: str, size: float = SIZE, bold: bool = False) -> float:
    """About how wide a text is."""
    from rich.cells import cell_len

    return cell_len(text) * size * _CELL * (_BOLD if bold else 1.0)


def fitted(text: str, room: float, size: float = SIZE) -> str:
    return shortened(text, max(4, int(room / size / _CELL + 1e-6)))


def note(sheet: Sheet, text: str, top: float) -> float:
    """A remark of ours in as many lines as it needs. Returns the bottom of the last line."""
    line, y = "", top + 12.0
    for word in text.split(" "):
        longer = f"{line} {word}".strip()
        if line and width_of(longer, SMALL) > sheet.width:
            sheet.words(0, y, line, "muted", size=SMALL)
            line, y = word, y + 15.0
        else:
            line = longer
    sheet.words(0, y, line, "muted", size=SMALL)
    return y + 6.0


def wrapped_chips(sheet: Sheet, chips: Sequence[tuple[str, str]], top: float) -> float:
    """Squares of colour, each with its name, in as many lines as they need. Returns the bottom of the last line."""
    x, y = 0.0, top + 11.0
    for colour, name in chips:
        shown = fitted(printable(name), sheet.width - 20, SMALL)
        needed = 14 + width_of(shown, SMALL) + 16
        if x and x + needed > sheet.width + 16:
            x, y = 0.0, y + 18
        sheet.add(Box(x, y - 9, 10, 10, colour))
        sheet.words(x + 14, y, shown, "muted", size=SMALL)
        x += needed
    return y + 6
