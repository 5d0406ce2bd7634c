"""Lists the training examples in tar shards, without extracting them. A tar may come from strangers."""

from __future__ import annotations

import os
import re
import tarfile
from collections.abc import Iterator
from itertools import groupby
from typing import Any, BinaryIO, cast

from pipebench.data.listing import (
    CUT,
    IMAGE_SUFFIXES,
    WANTED,
    Dataset,
    Extent,
    Listing,
    Sample,
    Shard,
    is_image,
    open_regular,
)
from pipebench.errors import PipebenchError, SampleError
from pipebench.units import printable


def shards(name: str, paths: list[str], limit: int | None = None) -> Dataset:
    """The samples of tar files in the order of the tar, at most `limit`. PipebenchError if there is none."""
    listing = Listing()
    opened = 0
    for path in paths:
        if limit is not None and len(listing.samples) >= limit:
            break
        _add_shard(path, listing)
        opened += 1
    if not listing.samples:
        reason = f": {listing.problems[0].message}" if listing.problems else ""
        raise PipebenchError(f"{printable(name)} holds no image{reason}.", WANTED)
    return listing.dataset(name, limit, 0 if opened == len(paths) else None)


class _Bounded:
    """A file that returns at most its remaining bytes: a hostile header cannot make `tarfile` reserve a terabyte."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = os.fstat(file.fileno()).st_size
        self.seek = file.seek
        self.tell = file.tell

    def read(self, count: int) -> bytes:
        return self._file.read(max(0, min(count, self.size - self._file.tell())))


class Members:
    """The members of a tar in order. After the last one, `ending` says what is wrong with the end of the tar.

    `tarfile` alone mistakes a cut between two members, or garbage after a member, for the end of the archive.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = _Bounded(file)
        self.size = self._file.size
        self.ending = ""

    def __iter__(self) -> Iterator[tarfile.TarInfo]:
        last = -1
        offset = 0
        try:
            tar = tarfile.TarFile(fileobj=cast(BinaryIO, self._file))
            while (member := tar.next()) is not None and member.size >= 0 and tar.offset > last:
                cast(Any, tar).members.clear()  # it keeps every header otherwise
                last = offset = tar.offset
                yield member
            offset = tar.offset
            self.ending = self._ending(offset)
        except Exception as error:  # hostile headers make tarfile raise far more than its own errors
            reason = f"no header can be read: {printable(str(error))}"
            self.ending = "it was cut inside its last member" if offset > self.size else reason

    def _ending(self, offset: int) -> str:
        if offset >= self.size:
            return "it has no end marker; samples that followed are lost"
        self._file.seek(offset)
        block = self._file.read(tarfile.BLOCKSIZE)
        if len(block) < tarfile.BLOCKSIZE:
            return "it was cut inside a header"
        return f"no tar header at byte {offset}" if block.strip(b"\0") else ""


def _add_shard(path: str, listing: Listing) -> None:
    """Lists one tar: its samples in order, and a record of the problem if the tar does not end properly."""
    keys: list[str] = []
    without_image = 0
    with open(open_regular(path), "rb") as file:
        members = Members(file)
        for tar_key, group in groupby(filter(_counts, members), key=lambda member: _split(member.name)[0]):
            sample = _tar_sample(tar_key, list(group), path, members.size)
            if sample is None:
                without_image += 1
            else:
                keys.append(listing.add(sample))
    if without_image:
        listing.record(path, "no-image", f"left out because they have no image: {without_image} samples")
    if members.ending:
        listing.record(path, "incomplete-shard", f"incomplete shard: {members.ending}")
    listing.shards.append(Shard(path, tuple(keys), not members.ending))


def _split(name: str) -> tuple[str, str]:
    """Key and suffix of a member's name, split as in webdataset: at the first dot of the last part. None: metadata."""
    folder, slash, last = name.rpartition("/")
    stem, dot, suffix = last.partition(".")
    if not stem or not dot or re.match(r"__[^/]*__($|/)", name):
        return "", ""
    return folder + slash + stem, suffix.lower()


def _counts(member: tarfile.TarInfo) -> bool:
    """Whether a member is part of a sample: a file, or an entry that has the name of an image but is not a file."""
    return bool(_split(member.name)[0]) and (member.isreg() or is_image(member.name))


def _tar_sample(tar_key: str, members: list[tarfile.TarInfo], path: str, shard_bytes: int) -> Sample | None:
    """The sample made of neighbouring members with one key. None if no member has the suffix of an image."""
    extents: dict[str, Extent] = {}
    problem: SampleError | None = None
    for member in members:
        suffix = _split(member.name)[1]
        if not member.isreg() or member.issparse():
            problem = SampleError("not-regular", "not a regular member of the shard")
        elif member.offset_data + member.size > shard_bytes:
            problem = SampleError("truncated", CUT)
        elif suffix in extents:
            problem = SampleError("duplicate", f"two members with the suffix {printable(suffix)}")
        extents[suffix] = Extent(path, member.offset_data, member.size)
    images = [suffix for suffix in extents if is_image("." + suffix)]
    if not images:
        return None
    image = next((suffix for suffix in images if suffix in IMAGE_SUFFIXES), images[0])
    return Sample(tar_key, image, {}, {} if problem else extents, tar_key, problem)
