"""What the two sides write to standard error: kept in a file while they are measured, and counted afterwards.

The measured code warns in every round, on both sides. A line is shown once, with how often each side wrote it.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from pipebench.results.comparison import Said
from pipebench.units import printable

MOST_BYTES = 8 << 20  # of each side; what comes after is not read
MOST_LINES = 20  # different ones, the most frequent; the rest are counted together
LONGEST = 300  # characters of a line
# What differs from round to round in one and the same message: addresses, times of day, process ids.
_VARIES = re.compile(r"0x[0-9a-fA-F]+|\d+:\d\d:\d\d(?:\.\d+)?|\d{5,}")
_HEADING = "Traceback (most recent call last):"  # its last line says what happened


def opened() -> IO[bytes]:
    """A file without a name, for the standard error of one side."""
    return tempfile.TemporaryFile()  # it lives as long as its side


def last(file: IO[bytes]) -> str:
    """The last line that a side wrote, as the end of a sentence about its failure; empty if it wrote nothing."""
    lines = _lines(file, None)
    return f"; it wrote: {lines[-1]}" if lines else ""


def collected(sides: Sequence[tuple[IO[bytes], Path | None]]) -> tuple[Said, ...]:
    """The different lines of both sides, the most frequent first. Closes the files.

    Each side is a file and the folder of its checkout. The folder is left out of the lines, so that a warning of both
    sides is one line.
    """
    counts: dict[str, list[int]] = {}
    texts: dict[str, str] = {}
    for side, (file, folder) in enumerate(sides):
        for line in _lines(file, folder):
            key = _VARIES.sub("#", line)
            texts.setdefault(key, line)
            counts.setdefault(key, [0, 0])[side] += 1
        file.close()
    order = sorted(counts, key=lambda key: -sum(counts[key]))
    found = [Said(texts[key], *counts[key]) for key in order[:MOST_LINES]]
    if rest := order[MOST_LINES:]:
        sums = (sum(counts[key][side] for key in rest) for side in (0, 1))
        found.append(Said(f"{len(rest)} other lines", *sums))
    return tuple(found)


def _lines(file: IO[bytes], folder: Path | None) -> list[str]:
    """The lines without indentation, inert. An indented line belongs to the one above it: a line of source, a frame."""
    file.seek(0)
    text = file.read(MOST_BYTES).decode("utf-8", "backslashreplace")
    if folder is not None:
        text = text.replace(os.fspath(folder) + os.sep, "")
    lines = [line.rstrip() for line in text.splitlines()]
    return [printable(line)[:LONGEST] for line in lines if line and not line[0].isspace() and line != _HEADING]
