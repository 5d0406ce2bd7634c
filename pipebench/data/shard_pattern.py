"""A pattern for the tars of a folder, as a user can type it. It was tried: it names these tars and nothing else."""

from __future__ import annotations

import glob
import os
import shlex
from collections.abc import Iterator, Sequence

from pipebench.units import printable


def named(folder: str, tars: Sequence[str]) -> str:
    """What to type for the tars in and below `folder`, in quotes: a pattern, or one tar where no pattern fits."""
    wanted = set(map(os.path.normpath, tars))
    for pattern in _patterns(folder, tars):
        found = set(map(os.path.normpath, glob.glob(pattern, recursive=True)))
        if found and found <= wanted:
            return _quoted(pattern)
    return _quoted(min(tars, key=os.fsencode))


def _patterns(folder: str, tars: Sequence[str]) -> Iterator[str]:
    suffixes = {path.rpartition(".")[2] for path in tars}
    name = f"*.{suffixes.pop()}" if len(suffixes) == 1 else "*.[tT][aA][rR]"
    deep = any(os.path.dirname(os.path.relpath(path, folder)) for path in tars)
    yield os.path.join(_escaped(folder), "**" if deep else "", name)


def _escaped(path: str) -> str:
    """`path` in a pattern. For braces, which are a pattern too, and for what cannot be typed, any character fits."""
    return "".join("?" if one in "{}" or printable(one) != one else one for one in glob.escape(path))


def _quoted(text: str) -> str:
    """In single quotes, so that the shell hands it over as it is."""
    quoted = shlex.quote(printable(text))
    return quoted if quoted.startswith("'") else f"'{quoted}'"
