"""Lists training examples in a folder, and reads them there or in tar shards. Nothing is extracted or changed.

The files may come from strangers. Only regular files are opened, because a FIFO or a device could block. Names become
inert text. What cannot be used becomes a sample with a problem, or a record of a problem; it never causes a crash.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from pipebench.data import shard_pattern
from pipebench.errors import BadSample, PipebenchError, SampleError
from pipebench.units import printable

IMAGE_SUFFIXES = ("jpg", "jpeg", "png", "ppm", "bmp", "pgm", "tif", "tiff", "webp")  # torchvision's IMG_EXTENSIONS
CUT = "truncated: the shard ends inside this member"
WANTED = """\
Name a folder of images, or a .tar, or tars: 'a-{000..003}.tar', 'a-*.tar';
or tables: a .parquet, an .arrow, a folder that Hugging Face `datasets` saved."""
OTHERS = "Other data: `pipebench watch train.py` measures the script that reads it."


@dataclass(frozen=True)
class Extent:
    """Where the bytes of one member lie inside a shard."""

    path: str
    offset: int
    size: int


class Cell(Protocol):
    """The place of an image in a table, which is neither a file nor a stretch of one."""

    @property
    def path(self) -> str: ...  # the table's file
    def read(self) -> bytes: ...  # the image; SampleError where there is none


@dataclass(frozen=True)
class Sample:
    """One training example: an image and its companion files, as loose files, as members of a shard, or as both.

    An image of a table has its `cell` instead, and no companions. `key` is inert text and unique in its listing. Paths
    and `tar_key` (the member's name without its suffix) are kept exactly as in the file system. `problem` says why the
    sample cannot be used, if the listing found a reason.
    """

    key: str
    image: str
    files: dict[str, str]
    extents: dict[str, Extent]
    tar_key: str = ""
    problem: SampleError | None = None
    cell: Cell | None = None

    def read(self) -> bytes:
        """The image's encoded bytes. `SampleError`: `vanished`, `unreadable`, `not-regular`, `empty`, `truncated`."""
        return self.read_member(self.image)

    def read_member(self, suffix: str) -> bytes:
        """The bytes of one member, from its loose file if there is one, else from the shard or the table."""
        if self.problem is not None:
            raise SampleError(self.problem.kind, self.problem.message)
        if self.cell is not None:
            return self.cell.read()
        path = self.files.get(suffix)
        data = read_extent(self.extents[suffix]) if path is None else read_file(path)
        if not data:
            raise SampleError("empty", "the file is empty")
        return data


@dataclass(frozen=True)
class Shard:
    """A tar file and the keys of its samples, good and bad, in tar order. `complete` is False if the tar was cut."""

    path: str
    keys: tuple[str, ...]
    complete: bool


@dataclass(frozen=True)
class Table:
    """A file of Parquet or Arrow and the keys of its samples, in the order of its rows."""

    path: str
    form: Literal["parquet", "arrow"]
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Dataset:
    """Everything that was found under one name or path. `problems` concern folders and shards, not single samples.

    With a limit, `samples` holds the first samples; the last shard may then have more keys than `samples`. `left_out`
    is how many more there are (None: some shards were not opened).
    """

    name: str
    samples: tuple[Sample, ...]
    shards: tuple[Shard, ...] = ()
    problems: tuple[BadSample, ...] = ()
    left_out: int | None = 0
    tables: tuple[Table, ...] = ()

    def by_key(self) -> dict[str, Sample]:
        return {sample.key: sample for sample in self.samples}


def open_regular(path: str) -> int:
    """A file descriptor of a regular file. Anything else at `path` raises `SampleError`; the call never blocks."""
    try:
        _refuse_special(os.stat(path).st_mode)
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError) as error:
        raise _sample_error(error) from error
    try:  # what was a file a moment ago may have been replaced: without blocking, as O_NONBLOCK opened it
        _refuse_special(os.fstat(descriptor).st_mode)
    except SampleError:
        os.close(descriptor)
        raise
    return descriptor


def read_file(path: str) -> bytes:
    """The whole of a regular file, or a SampleError."""
    try:
        with open(open_regular(path), "rb", buffering=0) as file:
            return file.read()
    except OSError as error:
        raise _sample_error(error) from error


def read_extent(extent: Extent) -> bytes:
    """The bytes of one member of a shard, or a SampleError."""
    try:
        with open(open_regular(extent.path), "rb", buffering=0) as file:
            if os.fstat(file.fileno()).st_size < extent.offset + extent.size:
                raise SampleError("truncated", CUT)
            return os.pread(file.fileno(), extent.size, extent.offset)
    except OSError as error:
        raise _sample_error(error) from error


def _refuse_special(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise SampleError("not-regular", f"not a regular file but {_kind_of_file(mode)}")


def _kind_of_file(mode: int) -> str:
    kinds = {
        stat.S_IFDIR: "a directory", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a character device", stat.S_IFBLK: "a block device", stat.S_IFLNK: "a link",
    }  # fmt: skip
    return kinds.get(stat.S_IFMT(mode), "something else")


def _sample_error(error: OSError | ValueError) -> SampleError:
    if isinstance(error, FileNotFoundError):
        return SampleError("vanished", "no such file, or a link that leads nowhere")
    return SampleError("unreadable", printable(getattr(error, "strerror", None) or str(error)))


class Listing:
    """Collects samples and problems. It makes every key inert and unique."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self.shards: list[Shard] = []
        self.tables: list[Table] = []
        self.problems: list[BadSample] = []
        self._taken: dict[str, int] = {}

    def add(self, sample: Sample) -> str:
        """Keeps `sample` and returns its key, with a number added where another sample has the same key."""
        plain = key = printable(sample.key)
        while key in self._taken:
            self._taken[plain] += 1
            key = f"{plain}#{self._taken[plain]}"
        self._taken[key] = 1
        self.samples.append(sample if sample.key == key else replace(sample, key=key))
        return key

    def record(self, path: str, kind: str, message: str) -> None:
        self.problems.append(BadSample("list", printable(path), None, kind, message, 0.0))

    def dataset(self, name: str, limit: int | None, more: int | None = 0) -> Dataset:
        """What was collected, up to the limit. `more` samples were not even collected (None: not known how many)."""
        samples = tuple(self.samples[:limit])
        left_out = None if more is None else len(self.samples) - len(samples) + more
        return Dataset(printable(name), samples, tuple(self.shards), tuple(self.problems), left_out, tuple(self.tables))


def folder(path: str, limit: int | None = None) -> Dataset:
    """The images in `path` and below, sorted by the bytes of their names, at most `limit`. PipebenchError if none."""
    listing = Listing()
    found: list[tuple[bytes, Sample]] = []
    others: list[str] = []
    for entries in _folders(path, listing):
        found += _samples_in(entries, path)
        if not found:
            others += [entry.path for entry in entries if _holds(entry.is_file)]
    if not found:
        raise _no_image(path, listing, others)
    found.sort(key=lambda pair: pair[0])
    for _, sample in found[:limit]:
        listing.add(sample)
    return listing.dataset(path, limit, len(found[limit:]) if limit else 0)


class NoImageError(PipebenchError):
    """A folder holds no image. `others` are the paths of the files that it holds."""

    def __init__(self, problem: str, remedy: str, others: list[str]) -> None:
        super().__init__(problem, remedy)
        self.others = others


def _no_image(path: str, listing: Listing, others: list[str]) -> NoImageError:
    """The error for a folder without an image. It says what the folder holds, and what to do with that."""
    counts = Counter(_suffix(os.path.basename(one)) for one in others).most_common(3)
    what = ", ".join(f"{count:,} .{printable(suffix)}" for suffix, count in counts if suffix)
    reason = listing.problems[0].message if listing.problems else f"it holds {what}" if what else ""
    remedy = f"Images end in {', '.join('.' + suffix for suffix in IMAGE_SUFFIXES)}."
    if tars := [one for one in others if _suffix(one) == "tar"]:
        remedy = f"Name its shards: {shard_pattern.named(path, tars)} (with the quotes)."
    elif what:
        remedy = f"{remedy}\n{OTHERS}"
    return NoImageError(f"{printable(path)} holds no image{': ' if reason else ''}{reason}.", remedy, others)


def files(name: str, paths: list[str], limit: int | None = None) -> Dataset:
    """The images at these paths, in their order, at most `limit`. Files beside them are not looked for."""
    listing = Listing()
    folders = {os.path.dirname(path) for path in paths}
    root = os.path.commonpath(folders) if len(set(map(os.path.isabs, folders))) == 1 else ""
    for path in paths[:limit]:
        key, suffix = os.path.relpath(path, root) if root else path, _suffix(path)
        problem = None if os.path.isfile(path) else _why_not_a_file(path)
        listing.add(Sample(key, suffix, {} if problem else {suffix: path}, {}, problem=problem))
    return listing.dataset(name, limit, len(paths[limit:]) if limit else 0)


def _folders(path: str, listing: Listing) -> Iterator[list[os.DirEntry[str]]]:
    """The entries of every folder below `path`. Each folder comes once; real folders come before linked ones."""
    seen: set[tuple[int, int]] = set()
    real, linked = [path], list[str]()
    while real or linked:
        folder = real.pop() if real else linked.pop()
        try:
            facts = os.stat(folder)
            if (facts.st_dev, facts.st_ino) in seen:
                continue
            seen.add((facts.st_dev, facts.st_ino))
            with os.scandir(folder) as scan:
                entries = sorted(scan, key=lambda entry: os.fsencode(entry.name), reverse=True)
        except OSError as error:
            listing.record(folder, "unreadable", f"the folder cannot be listed: {_sample_error(error)}")
            continue
        for entry in entries:
            if _holds(entry.is_dir) and not is_image(entry.name):
                (linked if entry.is_symlink() else real).append(entry.path)
        yield entries


def _samples_in(entries: list[os.DirEntry[str]], root: str) -> Iterator[tuple[bytes, Sample]]:
    """Every image of one folder with its companion files (same stem), and the bytes that it is sorted by."""
    companions: dict[str, dict[str, str]] = {}
    images: list[tuple[os.DirEntry[str], str, str]] = []
    for entry in entries:
        stem, dot, suffix = entry.name.rpartition(".")
        if is_image(entry.name):
            images.append((entry, stem, suffix.lower()))
        elif dot and _holds(entry.is_file):
            companions.setdefault(stem, {})[suffix.lower()] = entry.path
    for entry, stem, suffix in images:
        key = entry.path[len(os.path.join(root, "")) :]
        if _holds(entry.is_file):
            sample = Sample(key, suffix, {suffix: entry.path} | companions.get(stem, {}), {})
        else:
            sample = Sample(key, suffix, {}, {}, problem=_why_not_a_file(entry.path))
        yield os.fsencode(key), sample


def is_image(name: str) -> bool:
    """Whether a file's name ends as that of an image."""
    return _suffix(name) in IMAGE_SUFFIXES


def _suffix(name: str) -> str:
    _, dot, suffix = name.rpartition(".")
    return suffix.lower() if dot else ""


def _holds(check: Callable[[], bool]) -> bool:
    try:
        return check()
    except OSError:  # a link that leads to itself
        return False


def _why_not_a_file(path: str) -> SampleError:
    try:
        os.close(open_regular(path))
    except SampleError as error:
        return error
    return SampleError("unreadable", "it was replaced while it was listed")
