"""What is to be packed: the files that will be written, and where the bytes of their members lie. Nothing is read yet.

A folder becomes a folder with the same files, a tar a tar with the same members. Only regular files are opened. The
source is only ever read.
"""

from __future__ import annotations

import hashlib
import os
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from pipebench.data import datasets, in_tars, listing
from pipebench.data.listing import Extent
from pipebench.errors import PipebenchError, SampleError, UsageError
from pipebench.units import printable

JOURNAL = ".pipebench-pack.jsonl"
_WIDS_NAME = re.compile(r"((?:.*/)?.*?)\..*", re.DOTALL)  # `splitname` of wids 0.1.11


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


def _folders(folder: str) -> Iterator[tuple[str, list[os.DirEntry[str]]]]:
    """`folder` and every folder below it, in the order of their paths, with what is no folder in each.

    A link is what it leads to, as for torchvision's `ImageFolder`: the classes of a subset often are links. One that
    leads back to a folder around it is left out. Raises PipebenchError for a folder that cannot be listed.
    """
    todo: list[tuple[str, frozenset[tuple[int, int]]]] = [(folder, frozenset())]
    while todo:
        place, around = todo.pop()
        try:
            facts = os.stat(place)
            with os.scandir(place) as scan:
                entries = sorted(scan, key=lambda one: os.fsencode(one.name))
        except OSError as error:
            problem = f"{printable(place)} cannot be listed: {error.strerror or error}."
            raise PipebenchError(problem, "Mend it or leave it out.") from error
        here = (facts.st_dev, facts.st_ino)
        if here not in around:
            yield place, [one for one in entries if not _is_folder(one)]
            todo += [(one.path, around | {here}) for one in reversed(entries) if _is_folder(one)]


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself
        return False


def _files(folder: str) -> Iterator[str]:
    """Every file below `folder`, in the order of its path, but for the journal of a copy that pack wrote."""
    for place, entries in _folders(folder):
        yield from (one.path for one in entries if place != folder or one.name != JOURNAL)


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
            extent = Extent(path, header.offset_data, header.size) if _has_contents(header) else None
            yield Member(header.name, extent, int(header.mtime * 1e9), header)
        if members.ending:
            raise SampleError("incomplete-shard", f"incomplete shard: {members.ending}")


def _has_contents(header: tarfile.TarInfo) -> bool:
    """Whether contents follow it: those of a file, and of every type that `tarfile` does not know."""
    return header.isreg() or header.type not in tarfile.SUPPORTED_TYPES


def in_shards(copied: Sequence[Target], shard_bytes: int) -> list[Target]:
    """The same members in tars of about `shard_bytes` each. The files of a sample stay together and in order.

    Two samples of one key, which are from two tars, are no neighbours: a reader would take them for one.
    """
    shards: list[list[Member]] = [[]]
    filled = 0
    for sample in _samples(copied):
        size = sum(one.extent.size for one in sample if one.extent)
        if shards[-1] and (filled + size > shard_bytes or key(shards[-1][-1].name) == key(sample[0].name)):
            shards.append([])
            filled = 0
        shards[-1] += sample
        filled += size
    return [_shard(number, members) for number, members in enumerate(shards)]


def _samples(copied: Sequence[Target]) -> Iterator[list[Member]]:
    """Neighbouring members whose names are equal up to the suffix, as in webdataset. A tar has its own samples."""
    for _, neighbours in groupby(copied, key=lambda target: target.name if target.is_tar else ""):
        members = (one for target in neighbours for one in _with_contents(target))
        yield from (list(sample) for _, sample in groupby(members, key=lambda member: key(member.name)))


def _with_contents(target: Target) -> list[Member]:
    try:
        return [one for one in target.members() if one.extent]
    except SampleError as error:
        problem = f"{printable(target.name)} cannot be used: {error}."
        raise PipebenchError(problem, "Mend it or leave it out.") from error


def key(name: str) -> str:
    """The key of a sample: the name of a member up to the first dot of its last part, as in webdataset."""
    folder, slash, last = name.rpartition("/")
    return folder + slash + last.partition(".")[0]


def count_samples(members: Iterable[Member]) -> int:
    """How many samples webdataset's `wids` finds in a shard: neighbours of one key. It skips names without a dot."""
    found = (_WIDS_NAME.match(one.name) for one in members)
    return sum(1 for _ in groupby(name[1] for name in found if name))


def _shard(number: int, members: list[Member]) -> Target:
    sources = [(one.name, one.extent, one.mtime_ns) for one in members]
    size = sum(one.extent.size for one in members if one.extent)
    signature = hashlib.sha256(repr(sources).encode("utf-8", "surrogateescape")).hexdigest()
    return Target(f"shard-{number:06d}.tar", True, size, signature, lambda: members)


def check_apart(source: str, destination: Path) -> None:
    """Raises UsageError where writing to `destination` could touch the source."""
    to = Path(os.path.realpath(destination))
    if os.path.isdir(source):
        roots = (place for place, _ in _folders(source) if place == source or os.path.islink(place))
        touching = any(_touch(Path(os.path.realpath(root)), to) for root in roots)
    else:
        touching = any(to == Path(os.path.realpath(path)).parent for path in datasets.tars(source))
    if touching:
        raise UsageError(
            f"{printable(destination)} is where {printable(source)} lies, or within it, or around it",
            "name another folder: the source is never written to",
        )


def _touch(here: Path, to: Path) -> bool:
    return here == to or here in to.parents or to in here.parents
