"""Reads the records of a run while they are written: each line once, of all processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pipebench.watch.read import decoding
from pipebench.watch.record import record_file
from pipebench.watch.record.lines import (
    FetchSums,
    Line,
    LoaderFound,
    LoadersTogether,
    LoopSums,
    NewStage,
    PassBegun,
    ProcessStarted,
)
from pipebench.watch.record.program_lines import RankFound

_KINDS = (ProcessStarted, NewStage, LoaderFound, LoadersTogether, PassBegun, LoopSums, FetchSums, RankFound)
_WANTED = frozenset(kind.__name__.encode() for kind in _KINDS)


class Came(NamedTuple):
    """A line, the name of the file of the process that wrote it, and when what it tells of ended (0: it is no sum)."""

    file: str
    line: Line
    end: int


class Incoming:
    """The lines of the kinds that the series need, from every record file in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, int] = {}

    def new(self) -> list[Came]:
        """What was written since the last call, by the moment at which it ended. A line that is half written waits."""
        found = [came for name in self._grown() for came in self._lines(name)]
        return sorted(found, key=lambda came: came.end)

    def _grown(self) -> list[str]:
        with suppress(FileNotFoundError), os.scandir(self._folder) as entries:  # the folder may be gone
            return sorted(
                one.name
                for one in entries
                if one.name.endswith(record_file.SUFFIX) and one.stat().st_size > self._read.get(one.name, 0)
            )
        return []

    def _lines(self, name: str) -> Iterator[Came]:
        with suppress(FileNotFoundError):  # renamed: its disk is full
            lines, self._read[name] = decoding.whole_lines(self._folder / name, self._read.get(name, 0))
            for one in lines:
                if one.partition(b'"')[2].partition(b'"')[0] in _WANTED and (line := decoding.decoded(one)) is not None:
                    yield Came(name, line, _end(line))


def _end(line: Line) -> int:
    if isinstance(line, LoopSums):
        return line.begin + sum(line.phases_ns)
    return line.end if isinstance(line, FetchSums) else 0
