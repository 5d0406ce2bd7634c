"""Says whose code a source file holds, and chooses the frame of a stack that its reader can change."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from pipebench.watch.record.patches import is_ours

_STANDARD = os.path.dirname(os.__file__) + os.sep
_GETTERS = ("__getitem__", "__getitems__", "__iter__", "__next__")  # of a dataset: it may be a library's
_INSTALLED = ("site-packages", "dist-packages")


class Function(NamedTuple):
    """A function of a stack, and the line that it had reached."""

    file: str
    name: str
    line: int


class Place(NamedTuple):
    """A line of the user's own code, and the library function that it was calling ("" if none, or one in C)."""

    file: str
    function: str
    line: int
    calls: str = ""


_BELOW_THE_SCRIPT = f"{os.sep}launch{os.sep}bootstrap.py"  # the frame that runs the user's script
OURS = Place("", "pipebench", 0)


@lru_cache(maxsize=10_000)
def owner(file: str) -> str:
    """Whose code a file holds: "" for the user's own, or "pipebench", or the name of a library.

    What is neither installed, nor of the standard library, nor generated is the user's own.
    """
    if is_ours(file):
        return "pipebench"
    if file.startswith("<"):
        return "" if file.startswith(("<stdin", "<ipython-input")) else "generated code"
    parts = file.split(os.sep)
    for place in range(len(parts) - 2, -1, -1):
        if parts[place] in _INSTALLED:
            return parts[place + 1].removesuffix(".py")
    if file.startswith(_STANDARD):
        return file[len(_STANDARD) :].split(os.sep)[0].removesuffix(".py")
    return ""


def own_place(stack: Iterable[Function]) -> Place | None:
    """The deepest line of the user's own code in a stack, whose deepest function is first; None if there is none.

    Only the part of the stack above pipebench's nearest frame counts: that frame is the begin of the row. A stack
    without such a frame changed while it was read, and gives None; so does one that has left the row and is back in the
    script. If nothing in the part is the user's, the dataset
    itself comes from a library. Then the functions of that library are what a reader can choose, so the deepest of them
    is taken. torch's wrappers of datasets are passed over. Of a library's function that the user's code calls, and
    that is a row, the line that calls it is taken. `OURS` says that pipebench itself was running.
    """
    inside: list[Function] = []
    frames = iter(stack)
    for one in frames:
        if owner(one.file) == "pipebench":
            if one.file.endswith(_BELOW_THE_SCRIPT):
                return None
            return (_calling_line(inside, next(frames, None)) or _deepest_own(inside)) if inside else OURS
        inside.append(one)
    return None


def _calling_line(inside: list[Function], outer: Function | None) -> Place | None:
    """The user's line that calls the library's function in which a row begins; None if it is no such row."""
    first = inside[-1]
    if outer is None or owner(outer.file) or not all(owner(one.file) for one in inside):
        return None
    if plain_name(first.name).rpartition(".")[2] in _GETTERS:
        return None
    return Place(*outer, calls=_public_name(first))


def _deepest_own(inside: list[Function]) -> Place:
    owners = [owner(one.file) for one in inside]
    wanted = "" if "" in owners else next((one for one in reversed(owners) if one != "torch"), "torch")
    place = owners.index(wanted)
    return Place(*inside[place], calls=_public_name(inside[place - 1]) if place else "")


def _public_name(function: Function) -> str:
    """The name of a library function as a reader knows it: the library, and the name without what encloses it."""
    return f"{owner(function.file)}.{plain_name(function.name)}"


def plain_name(name: str) -> str:
    """A function's name without the functions around it. A comprehension has the name of its function.

    >>> plain_name("Photos.load.<locals>.<listcomp>"), plain_name("outer.<locals>.inner")
    ('Photos.load', 'inner')
    """
    parts = [
        one for one in name.split(".<locals>.") if one not in ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>")
    ]
    return parts[-1] if parts else name
