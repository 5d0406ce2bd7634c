"""What is said of an error: its first line, and the line of the user's own code where it happened.

The text of this file runs on each side of a comparison, so it imports only the standard library.
"""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Iterable

LONGEST = 300  # characters of what an error says
_FRAME = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+), in (?P<name>.+)$')
_IN_WORKER = re.compile(r"^Caught \w+ in (?P<where>.+)\.$")  # the first line of what torch raises for a worker
_INSTALLED = ("site-packages", "dist-packages")


def first_line(error: BaseException) -> str:
    """The error's type and the first line of its message, if it has one."""
    message = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}{': ' if message else ''}{message}"[:LONGEST]


def is_missing(error: BaseException) -> bool:
    """Whether a look-up has failed because a commit does not have a thing yet, or no longer: a module, a name.

    `stage.find` raises a `PipebenchError`, whose class is that of the other commit, or a KeyError in older ones.
    """
    return isinstance(error, (ImportError, AttributeError, LookupError)) or type(error).__name__ == "PipebenchError"


def said_of(error: BaseException, folder: str | None) -> str:
    """What an error says, with its place: the innermost line of the user's files below `folder`, as torch and other
    libraries raise errors for what they were given. Without any, the line that raised it.

    An error with the attribute `has_place` says where it happened itself. One that torch passes on from a worker of a
    loader has its own text and place in its message.
    """
    if hasattr(error, "has_place"):
        return str(error)
    what, frames = _of_worker(str(error)) or (first_line(error), [])
    raised = [(one.filename, one.lineno or 0, one.name) for one in traceback.extract_tb(error.__traceback__)]
    place = own_place(frames, folder) or own_place(raised, folder)
    if place is None and (at := frames or raised):
        place = f"{at[-1][0]}:{at[-1][1]}"
    return f"{what} ({place})" if place else what


def place_of(error: BaseException, folder: str | None) -> str | None:
    """The innermost line of a traceback that lies below `folder`, as `decode.py:12 in decode`; None without any."""
    frames = traceback.extract_tb(error.__traceback__)
    return own_place([(one.filename, one.lineno or 0, one.name) for one in frames], folder)


def own_place(frames: Iterable[tuple[str, int, str]], folder: str | None) -> str | None:
    """The last of these frames (file, line, function) that lies below `folder` and not in an installed package."""
    found = None
    for file, line, name in frames if folder else ():
        inside = os.path.relpath(os.path.realpath(file), os.path.realpath(folder or ""))
        parts = inside.split(os.sep)
        if file.startswith("<") or parts[0] == os.pardir or any(one in parts for one in _INSTALLED):
            continue
        found = f"{inside}:{line} in {name}"
    return found


def _of_worker(message: str) -> tuple[str, list[tuple[str, int, str]]] | None:
    """What a worker's error said, and its frames; None if the message is not of that kind."""
    lines = message.splitlines()
    caught = _IN_WORKER.match(lines[0]) if lines else None
    at = [(number, found) for number, line in enumerate(lines) if (found := _FRAME.match(line))]
    if caught is None or not at:
        return None
    said = next((line for line in lines[at[-1][0] + 1 :] if line[:1].strip()), "")
    frames = [(one["file"], int(one["line"]), one["name"]) for _, one in at]
    return f"{said[:LONGEST]} in {caught['where']}", frames
