"""Some of the user's own JPEGs, found beside those that the watched run named."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator

from pipebench.remedies.seen import Seen

_JPEG = b"\xff\xd8\xff"
_LOOKED_AT = 20_000  # entries of folders
_SUFFIXES = (".jpg", ".jpeg")


def jpegs(seen: Seen, most: int) -> tuple[str, ...]:
    """The paths of up to `most` JPEGs, spread over the folder that holds the slowest samples. Empty: none is known."""
    folder = folder_of(seen)
    return _spread(folder, most) if folder else ()


@functools.cache
def _spread(folder: str, most: int) -> tuple[str, ...]:
    """Looked for once: remedies propose before each trial."""
    found = list(_below(folder))
    step = max(1, -(-len(found) // most))
    return tuple(one for one in found[::step] if _is_jpeg(one))


def content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def folder_of(seen: Seen) -> str:
    """The folder with the JPEGs among the slowest samples; "" if the run named none, or if only the root holds all."""
    names = [one.name for one in seen.watched.slowest if one.loader == seen.loader.loader and _is_jpeg(one.name)]
    folders = [os.path.dirname(os.path.abspath(one)) for one in names]
    found = os.path.commonpath(folders) if folders else ""
    return found if found != os.path.dirname(found) else ""


def _below(folder: str) -> Iterator[str]:
    """The JPEGs by their names, among the first entries of the folder and of those within."""
    left = _LOOKED_AT
    for place, folders, names in os.walk(folder):
        folders.sort()
        yield from (os.path.join(place, one) for one in sorted(names)[:left] if one.lower().endswith(_SUFFIXES))
        left -= 1 + len(names)
        if left <= 0:
            return


def _is_jpeg(name: str) -> bool:
    try:
        with open(name, "rb") as file:
            return file.read(len(_JPEG)) == _JPEG
    except (OSError, ValueError):
        return False
