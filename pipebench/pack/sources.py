"""What is to be packed: the files that will be written, and where the bytes of their members lie. Nothing is read yet.

A folder becomes a folder with the same files, a tar a tar with the same members. Only regular files are opened. The
source is only ever read.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipebench.data import datasets, in_tars, listing
from pipebench.data.listing import Extent
from pipebench.errors import PipebenchError, SampleError, UsageError
from pipebench.units import printable


@dataclass(frozen=True)
class Member:
    """One file, or one entry of a tar, with its name in the result. An entry without contents has no extent."""

    name: str
    extent: Extent | None
    mtime_ns: int
    header: tarfile.TarInfo | None = None


@dataclass(frozen=True)
class Target:
    """One file that will be written: its path below the destination, and what it is made of.

    `signature` tells whether the source has changed since an earlier run. `members` is called when its turn comes,
    and raises `SampleError` where the source cannot be read to its end.
    """

    name: str
    is_tar: bool
    source_bytes: int
    signature: str
    members: Callable[[], Iterable[Member]]


def targets(source: str) -> list[Target]:
    """What a copy of `source` consists of: a folder, a tar, or a brace pattern of tars.

    Raises PipebenchError if there is nothing to be read under that name.
    """
    if os.path.isdir(source):
        found = [_target(path, os.path.relpath(path, source)) for path in _files(source)]
    else:
        found = [_target(path, os.path.basename(path)) for path in datasets.tars(source)]
    names = [one.name for one in found]
    doubled = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
    if doubled is not None:
        raise PipebenchError(f"Two of the shards are named {printable(doubled)}.", "Pack each folder on its own.")
    if not found:
        raise PipebenchError(f"{printable(source)} holds no file.", listing.WANTED)
    return found


def _files(folder: str) -> Iterator[str]:
    """Every file below `folder`, in the order of its path. Links to files are files; links to folders are left out."""
    for place, folders, files in os.walk(folder):
        folders.sort(key=os.fsencode)
        yield from (os.path.join(place, name) for name in sorted(files, key=os.fsencode))


def _target(path: str, name: str) -> Target:
    try:
        facts = os.stat(path)
    except OSError:  # a link that leads nowhere: it is reported when its turn comes
        return Target(name, False, 0, "", lambda: [Member(name, Extent(path, 0, 0), 0)])
    signature = f"{facts.st_size} {facts.st_mtime_ns}"
    if name.lower().endswith(".tar"):
        return Target(name, True, facts.st_size, signature, lambda: tar_members(path))
    whole = Member(name, Extent(path, 0, facts.st_size), facts.st_mtime_ns)
    return Target(name, False, facts.st_size, signature, lambda: [whole])


def tar_members(path: str) -> Iterator[Member]:
    """The entries of a tar in order. Raises `SampleError` for a tar that was cut, or that has a sparse member."""
    with open(listing.open_regular(path), "rb") as file:
        members = in_tars.Members(file)
        for header in members:
            if header.issparse() or header.offset_data + header.size > members.size:
                raise SampleError("truncated", f"{printable(header.name)} is not whole in it")
            extent = Extent(path, header.offset_data, header.size) if header.isreg() else None
            yield Member(header.name, extent, int(header.mtime * 1e9), header)
        if members.ending:
            raise SampleError("incomplete-shard", f"incomplete shard: {members.ending}")


def in_shards(copied: Sequence[Target], shard_bytes: int) -> list[Target]:
    """The same members in tars of about `shard_bytes` each. The files of a sample stay together and in order."""
    shards: list[list[Member]] = [[]]
    filled = 0
    for sample in _samples(copied):
        size = sum(one.extent.size for one in sample if one.extent)
        if shards[-1] and filled + size > shard_bytes:
            shards.append([])
            filled = 0
        shards[-1] += sample
        filled += size
    return [_shard(number, members) for number, members in enumerate(shards)]


def _samples(copied: Sequence[Target]) -> Iterator[list[Member]]:
    """Neighbouring members whose names are equal up to the suffix, as in webdataset."""
    sample: list[Member] = []
    for target in copied:
        try:
            members = [one for one in target.members() if one.extent]
        except SampleError as error:
            raise PipebenchError(
                f"{printable(target.name)} cannot be used: {error}.", "Mend it or leave it out."
            ) from error
        for member in members:
            if sample and key(sample[0].name) != key(member.name):
                yield sample
                sample = []
            sample.append(member)
    if sample:
        yield sample


def key(name: str) -> str:
    """The key of a sample: the name of a member up to the first dot of its last part, as in webdataset."""
    folder, slash, last = name.rpartition("/")
    return folder + slash + last.partition(".")[0]


def _shard(number: int, members: list[Member]) -> Target:
    sources = [(one.name, one.extent, one.mtime_ns) for one in members]
    size = sum(one.extent.size for one in members if one.extent)
    signature = hashlib.sha256(repr(sources).encode("utf-8", "surrogateescape")).hexdigest()
    return Target(f"shard-{number:06d}.tar", True, size, signature, lambda: members)


def check_apart(source: str, destination: Path) -> None:
    """Raises UsageError where writing to `destination` could touch the source."""
    to = Path(os.path.realpath(destination))
    if os.path.isdir(source):
        here = Path(os.path.realpath(source))
        touching = here == to or here in to.parents or to in here.parents
    else:
        touching = any(to == Path(os.path.realpath(path)).parent for path in datasets.tars(source))
    if touching:
        raise UsageError(
            f"{printable(destination)} is where {printable(source)} lies, or within it, or around it",
            "name another folder: the source is never written to",
        )
