"""Decodes record files into lines. What cannot be decoded is left out and counted. Here every text becomes inert."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import msgspec

from pipebench.units import all_printable
from pipebench.watch.record.lines import Line

KINDS: dict[str, type[Line]] = {kind.__name__: kind for kind in get_args(Line)}


def decoded(text: bytes) -> Line | None:
    """One line of a process; None if it was cut short or its kind is unknown."""
    try:
        # Python's own parser accepts every name that a file may have; msgspec's refuses names that are not UTF-8.
        name, fields = json.loads(text)
        if b"\\" in text or b"\x7f" in text or not text.isascii():  # else every character is printable
            fields = all_printable(fields)
        return msgspec.convert(fields, KINDS[name], str_keys=True)
    except (ValueError, TypeError, KeyError, RecursionError, msgspec.ValidationError):
        return None


def read(path: Path) -> tuple[list[Line], int]:
    """The lines of one file, and how many were left out. A process that is killed may not finish its last line."""
    with path.open("rb") as file:
        found = [decoded(text) if text.endswith(b"\n") else None for text in file]
    lines = [one for one in found if one is not None]
    return lines, len(found) - len(lines)
