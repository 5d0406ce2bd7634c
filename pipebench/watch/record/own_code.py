"""Says whose code a source file holds, and chooses the frame of a stack that its reader can change."""

from __future__ import annotations

import os
import types
from collections.abc import Iterable
from functools import lru_cache, partial
from typing import Any, NamedTuple

from pipebench.watch.record.patches import HIDDEN, is_ours

_STANDARD = os.path.dirname(os.__file__) + os.sep
_GETTERS = ("__getitem__", "__getitems__", "__iter__", "__next__")  # of a dataset: it may be a library's
_INSTALLED = ("site-packages", "dist-packages")
_INDUCTORS = "TORCHINDUCTOR_CACHE_DIR"
_MAKE = ("__init__", "__new__", "__repr__")
_WRAPPED = 10


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


# Modules of Python's library in which a thread waits, perhaps for a device's work.
WAITS = ("threading", "queue", "selectors", "multiprocessing", "concurrent", "subprocess", "socket", "asyncio", "ssl")


@lru_cache(maxsize=10_000)
def owner(file: str) -> str:
    """Whose code a file holds: "" for the user's own, or "pipebench", or the name of a library.

    What is neither installed, nor of the standard library, nor generated is the user's own. torch's compiler writes
    what it generates into a folder of its own.
    """
    if is_ours(file):
        return "pipebench"
    if file.startswith("<"):
        return "" if file.startswith(("<stdin", "<ipython-input")) else "generated code"
    parts = file.split(os.sep)
    kept = os.environ.get(_INDUCTORS, "").rstrip(os.sep)
    if any(one.startswith("torchinductor_") for one in parts[:-1]) or (kept and file.startswith(kept + os.sep)):
        return "generated code"
    for place in range(len(parts) - 2, -1, -1):
        if parts[place] in _INSTALLED:
            return parts[place + 1].removesuffix(".py")
    if file.startswith(_STANDARD):
        return file[len(_STANDARD) :].split(os.sep)[0].removesuffix(".py")
    return ""


def is_standard(file: str) -> bool:
    """Whether a file belongs to Python's own library."""
    return file.startswith((_STANDARD, "<frozen")) and not any(place in file for place in _INSTALLED)


def users_function(one: Any) -> bool:
    """Whether a transform is the user's own: a function, or the class of an object that is called."""
    while isinstance(one, partial):
        one = one.func
    if isinstance(one, type):
        return users_class(one)
    plain = getattr(one, "__func__", one) if isinstance(one, types.MethodType) else one
    return _is_users(plain) if isinstance(plain, types.FunctionType) else users_class(type(one))


def users_class(kind: type) -> bool:
    """Whether the user has written what an object of this class does: a method besides `__init__`, or a base's."""
    held = (one for base in kind.__mro__ for name, one in vars(base).items() if name not in _MAKE)
    return any(isinstance(one, types.FunctionType) and _is_users(one) for one in held)


def _is_users(function: types.FunctionType) -> bool:
    for _ in range(_WRAPPED):  # wrappers, also ours
        within = vars(function).get("__wrapped__")
        if not isinstance(within, types.FunctionType):
            break
        function = within
    file = function.__code__.co_filename.removeprefix(HIDDEN)  # a function that is timed in its place
    return bool(file) and not owner(file)


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


def line_reached(frame: types.FrameType) -> int:
    """The line that a frame has reached. One without a line, as at a loop's end, has that of the one before."""
    line: int | None = frame.f_lineno
    if line is None:
        before = [of for begin, _, of in frame.f_code.co_lines() if begin <= frame.f_lasti and of is not None]
        line = before[-1] if before else frame.f_code.co_firstlineno
    return line


def plain_name(name: str) -> str:
    """A function's name without the functions around it. A comprehension has the name of its function.

    >>> plain_name("Photos.load.<locals>.<listcomp>"), plain_name("outer.<locals>.inner")
    ('Photos.load', 'inner')
    """
    parts = [
        one for one in name.split(".<locals>.") if one not in ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>")
    ]
    return parts[-1] if parts else name
