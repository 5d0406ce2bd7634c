"""What a destination holds of earlier runs, so that an interrupted run goes on where it stopped.

The first line holds the options, each further line one file: noted before the file gets its final name. So a file
that is there and is not noted is not ours, and a file that is noted and not there is made again. A run holds a lock on
its journal; the system frees it when the process ends, however it ends (flock(2)).
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from pipebench.data import listing
from pipebench.errors import PipebenchError, SampleError, remedy_of
from pipebench.host.whole_files import check_writable
from pipebench.pack.sources import JOURNAL as NAME
from pipebench.units import printable

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
    """The journal of the folder `destination`, which is made if it is missing. A `with` block ends with its lock.

    Raises PipebenchError if it cannot be written, holds what no earlier run wrote, was written with other options, or
    if another process packs into it.
    """

    def __init__(self, destination: Path, options: Mapping[str, object]) -> None:
        self._folder = destination
        self._path = destination / NAME
        self.entries: dict[str, Entry] = {}
        check_writable(self._path)
        if not os.path.lexists(self._path):
            self._refuse_what_lies_there()
        self._file = self._locked()
        try:
            self._begin(options)
        except BaseException:
            os.close(self._file)
            raise

    def _begin(self, options: Mapping[str, object]) -> None:
        """Reads what earlier runs noted, or writes the first line."""
        lines = self._lines()
        if not lines:
            self._refuse_what_lies_there()
            self._append(json.dumps(options) + "\n")
        elif (found := self._read(lines[0], dict[str, Any])) != options:
            raise PipebenchError(
                f"{printable(self._folder)} was written with other options: {printable(json.dumps(found))[:200]}",
                "use the same options, or name another folder",
            )
        for line in lines[1:]:
            entry = self._read(line, Entry)
            self.entries[entry.name] = entry

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def _refuse_what_lies_there(self) -> None:
        if any(one.name != NAME for one in os.scandir(self._folder)):
            raise PipebenchError(f"{printable(self._folder)} is not empty.", "Name a new folder.")

    def _locked(self) -> int:
        """The journal, open to be added to, with a lock on it where the file system has locks."""
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            descriptor = os.open(self._path, flags, 0o666)
        except OSError as error:
            problem = f"{printable(self._path)} cannot be opened: {error.strerror}"
            raise PipebenchError(problem, remedy_of(error, _REMEDY)) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            problem = f"another process packs into {printable(self._folder)}"
            raise PipebenchError(problem, "wait until it has ended, or name another folder") from error
        except OSError:  # a file system without locks
            return descriptor
        return descriptor

    def _lines(self) -> list[bytes]:
        """Every whole line. One that was cut when a run was killed is removed. PipebenchError if it cannot be read."""
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

    def note(self, entries: Sequence[Entry]) -> None:
        """Notes finished files. When it returns, that is on the disk."""
        self.entries |= {one.name: one for one in entries}
        self._append("".join(json.dumps(asdict(one)) + "\n" for one in entries))

    def _append(self, lines: str) -> None:
        left = lines.encode()
        while left:
            left = left[os.write(self._file, left) :]
        os.fsync(self._file)
