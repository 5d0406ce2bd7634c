"""What a destination holds of earlier runs, so that an interrupted run goes on where it stopped.

The first line holds the options, each further line one file: noted before the file gets its final name. So a file
that is there and is not noted is not ours, and a file that is noted and not there is made again.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from pipebench.data import listing
from pipebench.errors import PipebenchError, SampleError
from pipebench.host.whole_files import check_writable, write_whole
from pipebench.units import printable

NAME = ".pipebench-pack.jsonl"
UNFINISHED = ".pipebench-packing"  # the suffix of a file that is being written
_REMEDY = "name a new folder, or remove this one and pack again"
Line = TypeVar("Line")


@dataclass
class Counts:
    """What became of the members of one file, or of all: how many, and their bytes before and after.

    `unchanged` counts the images that were copied as they are, by the reason.
    """

    packed: int = 0
    packed_before: int = 0
    packed_after: int = 0
    others: int = 0
    unchanged: dict[str, int] = field(default_factory=dict)

    def add(self, other: Counts) -> None:
        self.packed += other.packed
        self.packed_before += other.packed_before
        self.packed_after += other.packed_after
        self.others += other.others
        for reason, number in other.unchanged.items():
            self.unchanged[reason] = self.unchanged.get(reason, 0) + number


@dataclass(frozen=True)
class Entry:
    """One finished file: its name, its source's signature, its size in bytes, and what became of its members."""

    name: str
    signature: str
    size: int
    counts: Counts


class Journal:
    """The journal of the folder `destination`, which is made if it is missing.

    Raises PipebenchError if it cannot be written, holds what no earlier run wrote, or was written with other options.
    """

    def __init__(self, destination: Path, options: dict[str, object]) -> None:
        self._folder = destination
        self._path = destination / NAME
        self.entries: dict[str, Entry] = {}
        check_writable(self._path)
        lines = self._lines()
        if not lines:
            if any(one.name != NAME for one in os.scandir(destination)):
                raise PipebenchError(f"{printable(destination)} is not empty.", "Name a new folder.")
            write_whole(self._path, json.dumps(options).encode() + b"\n")
        elif (found := self._read(lines[0], dict[str, Any])) != options:
            raise PipebenchError(
                f"{printable(destination)} was written with other options: {printable(json.dumps(found))[:200]}",
                "use the same options, or name another folder",
            )
        for line in lines[1:]:
            entry = self._read(line, Entry)
            self.entries[entry.name] = entry

    def _lines(self) -> list[bytes]:
        """Every whole line. One that was cut when a run was killed is removed. PipebenchError if it cannot be read."""
        if not os.path.lexists(self._path):
            return []
        try:
            data = listing.read_file(str(self._path))
        except SampleError as error:
            raise PipebenchError(f"{printable(self._path)} cannot be read: {error}", _REMEDY) from error
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            os.truncate(self._path, len(whole))
        return whole.splitlines()

    def _read(self, line: bytes, kind: type[Line]) -> Line:
        try:
            return msgspec.convert(json.loads(line), kind)  # `json`, as msgspec refuses names that are not UTF-8
        except (ValueError, RecursionError) as error:
            raise PipebenchError(f"{printable(self._path)} is not what pack wrote", _REMEDY) from error

    def finished(self, name: str, signature: str) -> Entry | None:
        """The entry of a file that is complete and whose source is as it was; None if it must be made."""
        entry = self.entries.get(name)
        try:
            there = os.stat(self._folder / name).st_size
        except FileNotFoundError:
            return None
        if entry is None:
            raise PipebenchError(f"{printable(self._folder / name)} was not written by pack.", "Move it away.")
        return entry if entry.signature == signature and entry.size == there else None

    def note(self, entry: Entry) -> None:
        self.entries[entry.name] = entry
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(entry)) + "\n")
