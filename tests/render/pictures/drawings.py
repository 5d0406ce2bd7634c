"""The drawings of a picture: their words, and their marks with what they say and where they lie."""

import re
from functools import cache
from xml.etree import ElementTree

from pipebench.render import pictures

from picture_reports import EVERY  # isort: skip


@cache
def of(kind):
    """The pictures of one kind of report, drawn once."""
    return pictures.of(EVERY[kind])


def drawn(kind, name):
    return next(one for one in of(kind) if one.name == name)


def both(picture):
    """The wide drawing and the narrow one."""
    root = ElementTree.fromstring(f"<both>{picture.svg}</both>")
    assert [one.get("class") for one in root] == ["picture wide", "picture narrow"]
    return tuple(root)


def texts(drawing):
    return [one.text or "" for one in drawing.iter() if one.tag.endswith("text")]


def tips(drawing):
    """What each mark says when it is pointed at, with the left and right end of the mark."""
    found = []
    for group in (one for one in drawing.iter() if one.tag.endswith("}g")):
        mark = group[1]
        xs = [float(x) for x in re.findall(r"[ML] (-?[\d.]+) ", mark.get("d", ""))]
        xs = xs or [float(mark.get("cx")) - float(mark.get("r")), float(mark.get("cx")) + float(mark.get("r"))]
        found.append((group[0].text, min(xs), max(xs)))
    return found


def hollow(picture):
    circles = (one for one in both(picture)[0].iter() if one.tag.endswith("circle"))
    return [one for one in circles if "f-page" in one.get("class", "")]
