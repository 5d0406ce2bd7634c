"""Decodes record files into lines. What cannot be decoded is left out and counted. Here every text becomes inert."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import msgspec

from pipebench.units import all_printable
from pipebench.watch.record.lines import FetchSums, Line, LoopSums
from pipebench.watch.record.record_file import PHASES, WAIT_PARTS, bucket
from pipebench.watch.record.spent import ROWS, TimeSpent

_LONGEST = bucket(2**63)
KINDS: dict[str, type[Line]] = {kind.__name__: kind for kind in get_args(Line)}


def decoded(text: bytes) -> Line | None:
    """One line of a process; None if it was cut short or its kind is unknown."""
    try:
        # Python's own parser accepts every name that a file may have; msgspec's refuses names that are not UTF-8.
        name, fields = json.loads(text)
        if b"\\" in text or b"\x7f" in text or not text.isascii():  # else every character is printable
            fields = all_printable(fields)
        line = msgspec.convert(fields, KINDS[name], str_keys=True)
    except (ValueError, TypeError, KeyError, RecursionError, msgspec.ValidationError):
        return None
    return line if _possible(line) else None


def _possible(line: Line) -> bool:
    """Whether its lists are as long as what they list, and its durations fit into a clock."""
    if isinstance(line, TimeSpent):
        return all(len(one.spent_ns) == len(ROWS) for one in line.passes)
    if not isinstance(line, LoopSums):
        return not isinstance(line, FetchSums) or _durations(line.lengths)
    whole = len(line.phases_ns) == len(PHASES) and len(line.wait_parts_ns) in (0, len(WAIT_PARTS))
    return whole and _durations(line.lengths) and _durations(line.waits)


def _durations(buckets: dict[int, int]) -> bool:
    return all(0 <= one <= _LONGEST for one in buckets)


def whole_lines(path: Path, begin: int) -> tuple[list[bytes], int]:
    """The lines of a file from byte `begin` on, and where they end. A line that is half written waits."""
    with path.open("rb") as file:
        file.seek(begin)
        whole, newline, _ = file.read().rpartition(b"\n")
    return whole.split(b"\n"), begin + len(whole) + len(newline)


def read(path: Path) -> tuple[list[Line], int]:
    """The lines of one file, and how many were left out. A process that is killed may not finish its last line."""
    with path.open("rb") as file:
        found = [decoded(text) if text.endswith(b"\n") else None for text in file]
    lines = [one for one in found if one is not None]
    return lines, len(found) - len(lines)
