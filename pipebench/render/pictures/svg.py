"""Draws a sheet by matplotlib, and turns what it wrote into SVG that a page of strict policy may hold.

No style, no id, no reference, no prolog: colours are classes, and a mark says what it is in a `title` of its own.
"""

from __future__ import annotations

import contextlib
import io
import logging
import re
import warnings
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import escape, quoteattr

from pipebench.render.layout import shortened
from pipebench.render.pictures import SERIES, TONES
from pipebench.render.pictures.sheet import Area, Box, Dot, Line, Mark, Sheet, Words
from pipebench.units import printable

_COLOURS = {**{str(number): colour for number, colour in enumerate(SERIES)}, **TONES}
_CLASSES = {
    **{colour: str(number) for number, colour in enumerate(SERIES)},
    **{colour: "-" + tone for tone, colour in TONES.items()},
}
_SETTINGS: Any = {
    "svg.fonttype": "none", "svg.hashsalt": "pipebench", "text.usetex": False, "path.simplify": False,
    "path.sketch": None, "font.family": "DejaVu Sans", "lines.scale_dashes": False, "figure.dpi": 72,
    "text.parse_math": False, "path.effects": [],
}  # fmt: skip
_KEPT = ("fill", "stroke", "stroke-width", "stroke-dasharray", "fill-opacity", "stroke-opacity", "font-size",
         "font-weight", "text-anchor", "stroke-linecap")  # fmt: skip
_SVG = "{http://www.w3.org/2000/svg}"
_NUMBER = re.compile(r"-?\d+\.\d+")
_TIP, _ROUND = "tip-", "round-"
_LONGEST = 160  # characters of what a mark says


def drawn(sheet: Sheet, label: str = "") -> str:
    """The sheet as SVG, with a label for screen readers. The same sheet gives the same text, byte for byte."""
    with _quietly():
        text = _written(sheet)
    marks = [(place, mark) for place, mark in enumerate(sheet.marks) if isinstance(mark, Box | Dot)]
    tips = {f"{kind}{place}": mark.tip for kind in (_TIP, _ROUND) for place, mark in marks}
    return _inert(ElementTree.fromstring(text), sheet, tips, label)


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Without what matplotlib says about fonts: it looks for them once, and the reader's own show the characters."""
    log = logging.getLogger("matplotlib")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(before)


def _written(sheet: Sheet) -> str:
    """The SVG as matplotlib writes it."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    from matplotlib.transforms import Affine2D

    out = io.StringIO()
    with matplotlib.rc_context(_SETTINGS):
        figure = Figure(figsize=(sheet.width / 72, sheet.height / 72), dpi=72, facecolor="none")
        down = Affine2D().scale(1, -1).translate(0, sheet.height)
        for place, mark in enumerate(sheet.marks):
            for artist in _artists(mark):
                artist.set_transform(down)
                artist.set_zorder(place)
                if isinstance(mark, Box | Dot):
                    round_one = isinstance(mark, Dot) and not mark.diamond
                    artist.set_gid(f"{_ROUND if round_one else _TIP}{place}")
                figure.add_artist(artist)
        figure.patch.set_visible(False)
        canvas: Any = FigureCanvasSVG(figure)
        canvas.print_svg(out, metadata={"Date": None})
    return out.getvalue()


def _artists(mark: Mark) -> Iterator[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Circle, Polygon, Rectangle
    from matplotlib.text import Text

    colour = _COLOURS[mark.colour]
    if isinstance(mark, Words):
        yield Text(
            mark.x, mark.y, mark.text, color=colour, fontsize=mark.size, va="baseline",
            ha={"start": "left", "middle": "center", "end": "right"}[mark.anchor],
            fontweight="bold" if mark.bold else "normal", parse_math=False,
        )  # fmt: skip
    elif isinstance(mark, Line):
        dashes: Any = (0, (4, 3)) if mark.dashed else "solid"
        xs, ys = zip(*mark.points, strict=True)
        yield Line2D(xs, ys, color=colour, linewidth=mark.width, linestyle=dashes, solid_capstyle="butt")
    elif isinstance(mark, Area):
        yield Polygon(mark.points, closed=True, linewidth=0, facecolor=_faded(colour, mark.opacity))
    elif isinstance(mark, Box):
        face = "none" if mark.hollow else _faded(colour, mark.opacity)
        yield Rectangle(
            (mark.x, mark.y), mark.width, mark.height, facecolor=face, edgecolor=colour, linewidth=1.4 * mark.hollow
        )
    else:
        style = {"facecolor": _COLOURS["page"] if mark.hollow else colour, "edgecolor": colour, "linewidth": 1.6}
        r = mark.radius
        tips = [(mark.x - r, mark.y), (mark.x, mark.y - r), (mark.x + r, mark.y), (mark.x, mark.y + r)]
        yield Polygon(tips, closed=True, **style) if mark.diamond else Circle((mark.x, mark.y), r, **style)


def _faded(colour: str, opacity: float) -> Any:
    from matplotlib.colors import to_rgba

    return to_rgba(colour, opacity)


def _inert(root: ElementTree.Element, sheet: Sheet, tips: dict[str, str], label: str) -> str:
    kind = "narrow" if sheet.narrow else "wide"
    size = f"{sheet.width:g} {sheet.height:g}"
    body = "".join(_elements(root, tips))
    named = f' role="img" aria-label={quoteattr(printable(label))}' if label else ""
    return f'<svg class="picture {kind}" viewBox="0 0 {size}" xmlns="http://www.w3.org/2000/svg"{named}>{body}</svg>'


def _elements(parent: ElementTree.Element, tips: dict[str, str]) -> Iterator[str]:
    """Paths, circles and texts only, in their order; whatever else matplotlib writes is left out."""
    for one in parent:
        tag, name = one.tag.removeprefix(_SVG), one.get("id", "")
        if tag == "g":
            tip = escape(shortened(printable(tips.get(name, "")), _LONGEST))
            inside = "".join(_round(path) for path in one) if name.startswith(_ROUND) else "".join(_elements(one, tips))
            yield f"<g><title>{tip}</title>{inside}</g>" if tip else inside
        elif tag in ("path", "text"):
            yield _element(tag, one)


def _round(path: ElementTree.Element) -> str:
    """The path of a circle as a circle, which is a tenth as long."""
    numbers = [float(found) for found in re.findall(r"-?[\d.]+", path.get("d", ""))]
    xs, ys = numbers[::2], numbers[1::2]
    r = (max(xs) - min(xs)) / 2
    given = {"cx": f"{min(xs) + r:.2f}", "cy": f"{min(ys) + r:.2f}", "r": f"{r:.2f}", "style": path.get("style", "")}
    return _element("circle", ElementTree.Element("circle", given))


def _element(tag: str, one: ElementTree.Element) -> str:
    given = {name: value for name, value in one.attrib.items() if name in ("d", "x", "y", "cx", "cy", "r")}
    for part in one.get("style", "").split(";"):
        name, _, value = (word.strip() for word in part.partition(":"))
        if name in _KEPT:
            given[name] = "600" if (name, value) == ("font-weight", "700") else value
    classes = [
        letter + _CLASSES[given.pop(name).lower()]
        for name, letter in (("fill", "f"), ("stroke", "s"))
        if given.get(name, "").lower() in _CLASSES
    ]
    given = {name: _rounded(value) for name, value in given.items()}
    if classes:
        given["class"] = " ".join(classes)
    inside = escape(one.text or "") if tag == "text" else ""
    return f"<{tag} {' '.join(f'{name}={quoteattr(value)}' for name, value in given.items())}>{inside}</{tag}>"


def _rounded(value: str) -> str:
    """Numbers with at most two decimals, and no line breaks."""
    shown = _NUMBER.sub(lambda found: f"{float(found[0]):.2f}".rstrip("0").rstrip("."), value)
    return " ".join(shown.split())
