"""Writes one file or one tar under a temporary name, reads it back, and gives it its name when it is complete."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

from pipebench.data import listing
from pipebench.data.listing import Extent
from pipebench.errors import PipebenchError, SampleError
from pipebench.host.whole_files import write_whole
from pipebench.pack.journal import UNFINISHED
from pipebench.pack.sources import Member, Target, count_samples
from pipebench.units import printable


class Writer:
    """Writes the members of `target` below `folder`: `open`, `add` each, `complete`, `sync`, `name`; or `discard` all.

    It is opened once its owner has it, so that a signal in between leaves no file that nobody discards.
    """

    _file: BinaryIO

    def __init__(self, folder: Path, target: Target) -> None:
        self.path = folder / target.name
        number = crc32(os.fsencode(target.name))  # several are unfinished at once, and a name has 255 bytes at most
        self._draft = self.path.with_name(f"{self.path.name[:40]}.{number:08x}{UNFINISHED}")
        self._is_tar = target.is_tar
        self._sums: list[tuple[int, int, int]] = []  # offset, bytes and CRC of what was packed
        self._mtime_ns: int | None = None

    def open(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._draft.open("wb")

    def add(self, member: Member, data: bytes | None) -> Extent:
        """Writes `data`, or the member as it is in the source. Returns where it will lie."""
        size = len(data) if data is not None else member.extent.size if member.extent else 0
        if self._is_tar:
            self._file.write(_header(member, size))
        else:
            self._mtime_ns = member.mtime_ns
        begin = self._file.tell()
        if data is not None:
            self._file.write(data)
            self._sums.append((begin, size, crc32(data)))
        elif member.extent is not None:
            self._copy(member.extent)
        if self._is_tar:
            self._file.write(bytes(-size % tarfile.BLOCKSIZE))
        return Extent(str(self.path), begin, size)

    def _copy(self, extent: Extent) -> None:
        with open(listing.open_regular(extent.path), "rb") as source:
            source.seek(extent.offset)
            left = extent.size
            while left:
                piece = source.read(min(left, 1 << 20))
                if not piece:
                    raise SampleError("truncated", "it became shorter while it was copied")
                self._file.write(piece)
                left -= len(piece)

    def complete(self) -> int:
        """Closes the file and reads back what was packed. Returns its size."""
        if self._is_tar:  # two empty blocks end it, and it is filled up as `tarfile` does
            end = self._file.tell() + 2 * tarfile.BLOCKSIZE
            self._file.write(bytes(2 * tarfile.BLOCKSIZE + -end % tarfile.RECORDSIZE))
        self._file.close()
        with open(self._draft, "rb") as file:
            for begin, size, wanted in self._sums:
                file.seek(begin)
                if crc32(file.read(size)) != wanted:
                    raise PipebenchError(f"{printable(self._draft)} does not hold what was written.", "Check its disk.")
        if self._mtime_ns is not None:
            os.utime(self._draft, ns=(self._mtime_ns, self._mtime_ns))
        return self._draft.stat().st_size

    def sync(self) -> None:
        """Waits until the complete file is on the disk."""
        with self._draft.open("rb") as file:
            os.fsync(file.fileno())

    def name(self) -> None:
        """Gives the complete file its final name."""
        os.replace(self._draft, self.path)

    def discard(self) -> None:
        with contextlib.suppress(AttributeError):  # it was not opened
            self._file.close()
        with contextlib.suppress(OSError):
            self._draft.unlink()


def _header(member: Member, size: int) -> bytes:
    """The blocks before a member's contents: those of the source with another size, or new ones for a loose file."""
    if member.header is None:
        header = tarfile.TarInfo(member.name)
        header.mtime = member.mtime_ns // 1_000_000_000
    else:
        header = copy.copy(member.header)
        header.pax_headers = {key: value for key, value in header.pax_headers.items() if key != "size"}
    if member.extent is not None:
        header.size = size
    return header.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def write_index(folder: Path, shards: Sequence[Target]) -> None:
    """Writes the names of the shards, their sizes and how many samples each holds, as webdataset's wids reads them."""
    rows = [
        {
            "url": one.name,
            "nsamples": count_samples(one.members()),
            "filesize": (folder / one.name).stat().st_size,
        }
        for one in shards
    ]
    content = {"__kind__": "wids-shard-index-v1", "wids_version": 1, "shardlist": rows}
    write_whole(folder / "index.json", json.dumps(content, indent=1).encode() + b"\n")
