"""Read: from loose files or tar shards to bytes in memory. From tables it is in `read_tables`.

Loose files, shards and tables hold the same samples, so their rows can be compared. Prefetching may still hide a row
that is slow in isolation. A row that is slow with a cold page cache is bound by storage.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipebench.data import datasets, tables
from pipebench.errors import SampleError
from pipebench.stages import cache_state
from pipebench.task import Task, Unavailable, Variant, Work, Workload, task, variant

GROUP = 64  # loose files checked together
SHARD_GROUP = 512  # samples of a shard checked together: each check streams the shard from its start
PAGE = 4096

Payload = tuple[Any, ...]  # one buffer per member of a sample, in the order of their suffixes


@dataclass
class Source:
    """What one call reads: some samples as loose files, as members of one shard, as rows of one table."""

    samples: tuple[datasets.Sample, ...]
    shard: str | None
    suffixes: tuple[tuple[str, ...], ...]  # of each sample, those to read
    table: str | None = None
    copies: tuple[str, ...] = ()  # where tables with the same samples lie, once they are made
    verified: bool = False
    held: dict[str, Any] = field(default_factory=dict)  # what a variant keeps open for as long as the source is used

    @functools.cached_property
    def files(self) -> list[tuple[str, list[str]]]:
        """Key and paths of each sample."""
        pairs = zip(self.samples, self.suffixes, strict=True)
        return [(sample.key, [sample.files[suffix] for suffix in wanted]) for sample, wanted in pairs]

    @functools.cached_property
    def extents(self) -> list[tuple[str, list[tuple[int, int]]]]:
        """Key and (offset, size) pairs of each sample in the shard."""
        pairs = zip(self.samples, self.suffixes, strict=True)
        return [
            (sample.key, [(sample.extents[suffix].offset, sample.extents[suffix].size) for suffix in wanted])
            for sample, wanted in pairs
        ]

    @functools.cached_property
    def members(self) -> dict[str, tuple[int, int]]:
        """Maps a member's name (suffix in lower case) to the index of its sample and of the member within it."""
        return {
            f"{sample.tar_key}.{suffix}": (row, column)
            for row, (sample, wanted) in enumerate(zip(self.samples, self.suffixes, strict=True))
            for column, suffix in enumerate(wanted)
        }

    @property
    def paths(self) -> list[str]:
        """Every file that must leave the page cache before a cold reading."""
        loose = [path for sample in self.samples for path in sample.files.values()]
        whole = [path for path in (self.shard, self.table) if path]
        return loose + whole + [path for path in self.copies if os.path.exists(path)]


_listed: dict[tuple[str, int | None], tuple[datasets.Dataset, dict[str, datasets.Sample]]] = {}


def load(workload: Workload, progress: datasets.Progress = lambda done, total, what: None) -> datasets.Dataset:
    """The workload's data; it is listed, or built and verified, once in each process."""
    identity = workload.data, workload.limit
    if identity not in _listed:
        listed = datasets.load(workload.data, limit=workload.limit, progress=progress)
        _listed[identity] = listed, listed.by_key()
    return _listed[identity][0]


def sample(workload: Workload, key: str) -> datasets.Sample:
    load(workload)
    return _listed[workload.data, workload.limit][1][key]


def keys(workload: Workload) -> list[tuple[str, ...]]:
    """The keys of all listed samples, each a group of its own."""
    return [(one.key,) for one in load(workload).samples]


def _groups(workload: Workload) -> Sequence[tuple[str, ...]]:
    listed = load(workload)
    if holders := listed.shards or listed.tables:
        known = {one.key for one in listed.samples}  # a limit may end within a shard
        in_shards = (tuple(key for key in holder.keys if key in known) for holder in holders)
        return [
            group[begin : begin + SHARD_GROUP] for group in in_shards for begin in range(0, len(group), SHARD_GROUP)
        ]
    names = [one.key for one in listed.samples]
    return [tuple(names[begin : begin + GROUP]) for begin in range(0, len(names), GROUP)]


def _sources(workload: Workload, names: Sequence[str], whole: bool) -> list[Source]:
    """The wanted samples as one source per shard or table (one source in all for loose files)."""
    listed, wanted = load(workload), set(names)
    found = [sample(workload, name) for name in names]
    for one in found:
        if one.problem is not None:
            raise one.problem
    together = [
        (holder.path, [sample(workload, key) for key in holder.keys if key in wanted])
        for holder in listed.shards or listed.tables
    ] or [("", found)]
    return [_source(workload, path, members, whole) for path, members in together if members]


def _source(workload: Workload, path: str, members: list[datasets.Sample], whole: bool) -> Source:
    samples, suffixes = tuple(members), tuple(_wanted(one, whole) for one in members)
    if load(workload).tables:
        return Source(samples, None, suffixes, path)
    copies = tables.copies_at(path) if path and datasets.is_embedded(workload.data) else ()
    return Source(samples, path or None, suffixes, copies=copies)


def _wanted(one: datasets.Sample, whole: bool) -> tuple[str, ...]:
    return tuple(sorted(one.files or one.extents)) if whole and one.cell is None else (one.image,)


def _split(given: Source, output: Iterator[tuple[str, Payload]]) -> list[tuple[tuple[str, ...], Any]]:
    """Key and bytes of each sample. Lazy buffers are copied here, outside the timed part."""
    return [((key,), tuple(bytes(memoryview(part)) for part in payload)) for key, payload in output]


def _check(output: Any, given: Source) -> None:
    if not all(isinstance(part, bytes) for part in output):
        raise SampleError("contract", "a member did not come out as bytes")
    if not all(output):
        raise SampleError("empty", "it has no bytes")


def _agree(output: Any, expected: Any, variant: Variant) -> None:
    if output != expected:
        raise SampleError("disagrees", "its bytes are not those of the reference")


def _work(given: Source, output: list[tuple[str, Payload]]) -> Work:
    size = sum(len(memoryview(part)) for _, payload in output for part in payload)
    return Work(len(given.samples), size, size)


for _whole, _name, _summary in (
    (False, "read/image", "the encoded image of each sample, into memory"),
    (True, "read/all-members", "every member of each sample (image, labels, text), into memory"),
):
    task(
        Task(
            id=_name,
            summary=_summary,
            groups=_groups,
            inputs=functools.partial(_sources, whole=_whole),
            check=_check,
            agree=_agree,
            work=_work,
            per_call=lambda workload: 64 if workload.quick else 128,
            from_the_start=True,
            split=_split,
            before=cache_state.bring_about,
            lazy=True,
        )
    )

TASKS = ("read/image", "read/all-members")
Reading = Callable[[Source], Iterator[tuple[str, Payload]]]


def _loose(workload: Workload) -> None:
    shows_residency(workload)
    if not any(one.files for one in load(workload).samples):
        what = "tables" if load(workload).tables else "shards"
        raise Unavailable("not-built", f"this data is {what}, and {what} are never extracted into files")


def _sharded(workload: Workload) -> None:
    shows_residency(workload)
    if not load(workload).shards:
        what = "tables" if load(workload).tables else "loose files"
        raise Unavailable("not-built", f"this data is {what}, and no shards are made of your files")


def shows_residency(workload: Workload) -> None:
    """Raises `Unavailable` where a cold cache is asked for and the kernel cannot show that it is cold."""
    if workload.cache == "cold":
        sources = _sources(workload, [one.key for one in load(workload).samples if one.problem is None][:1], False)
        cache_state.must_show(workload, sources[0].paths[:1] if sources else [])


@variant(*TASKS, name="open")
def open_read(workload: Workload) -> Reading:
    """`open(path, "rb").read()`, what most Datasets do."""
    _loose(workload)

    def read(source: Source) -> Iterator[tuple[str, Payload]]:
        for key, paths in source.files:
            payload = []
            for path in paths:
                with open(path, "rb") as file:
                    payload.append(file.read())
            yield key, tuple(payload)

    return read


@variant(*TASKS, name="pread")
def pread(workload: Workload) -> Reading:
    """`os.open`, `fstat`, one `pread`: no Python file object.

    On one machine and warm, 77 % of its time is the kernel's copy, 13 % opening and closing, and the rest mostly new
    memory for the bytes.
    """
    _loose(workload)

    def read(source: Source) -> Iterator[tuple[str, Payload]]:
        for key, paths in source.files:
            payload = []
            for path in paths:
                descriptor = os.open(path, os.O_RDONLY)
                try:
                    payload.append(os.pread(descriptor, os.fstat(descriptor).st_size, 0))
                finally:
                    os.close(descriptor)
            yield key, tuple(payload)

    return read


@variant(*TASKS, name="torchvision")
def torchvision_read(workload: Workload) -> Reading:
    """`torchvision.io.read_file`, which maps the file lazily: every page is touched here."""
    from torchvision.io import read_file

    _loose(workload)

    def read(source: Source) -> Iterator[tuple[str, Payload]]:
        for key, paths in source.files:
            payload = [read_file(path).numpy() for path in paths]
            for part in payload:
                part[::PAGE].sum()
            yield key, tuple(payload)

    return read


@variant(*TASKS, name="mmap")
def mapped(workload: Workload) -> Reading:
    """`mmap` of the file, every page touched: no copy, but a page fault for each 4 KiB."""
    import mmap

    _loose(workload)

    def read(source: Source) -> Iterator[tuple[str, Payload]]:
        for key, paths in source.files:
            payload = []
            for path in paths:
                with open(path, "rb", buffering=0) as file:
                    pages = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
                pages[::PAGE]
                payload.append(pages)
            yield key, tuple(payload)

    return read


@variant(*TASKS, name="tarfile")
def tarfile_read(workload: Workload) -> Reading:
    """The standard library's `tarfile`, member by member from the start of the shard."""
    import tarfile

    _sharded(workload)

    def read(source: Source) -> Iterator[tuple[str, Payload]]:
        assert source.shard is not None
        collected = _Collector(source)
        with tarfile.open(source.shard, "r:", errors="surrogateescape") as shard:
            for member in shard:
                name = lowered(member.name)
                if name in source.members and (opened := shard.extractfile(member)) is not None:
                    yield from collected.add(name, opened.read())
                if collected.done:
                    return

    return read


def lowered(name: str) -> str:
    """A member's name, its suffix in lower case; it starts at the first dot of the last part, as in webdataset."""
    dot = name.find(".", name.rfind("/") + 1)
    return name if dot < 0 else name[:dot] + name[dot:].lower()


class _Collector:
    """Collects members into samples and yields each sample when all its members are there."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._parts: dict[int, dict[int, bytes]] = {}
        self._left = len(source.samples)

    @property
    def done(self) -> bool:
        return self._left == 0

    def add(self, name: str, data: bytes) -> Iterator[tuple[str, Payload]]:
        row, column = self._source.members[name]
        parts = self._parts.setdefault(row, {})
        parts[column] = data
        if len(parts) == len(self._source.suffixes[row]):
            self._left -= 1
            del self._parts[row]
            yield self._source.samples[row].key, tuple(parts[place] for place in sorted(parts))


@variant(*TASKS, name="tar-index")
def tar_index(workload: Workload) -> Reading:
    """An index of offsets and one `pread` for each member: random access in a shard."""
    _sharded(workload)

    def read(source: Source) -> Iterator[tuple[str, Payload]]:
        assert source.shard is not None
        descriptor = os.open(source.shard, os.O_RDONLY)
        try:
            for key, extents in source.extents:
                yield key, tuple(os.pread(descriptor, size, offset) for offset, size in extents)
        finally:
            os.close(descriptor)

    return read


@variant(*TASKS, name="webdataset", extra="webdataset")
def webdataset_read(workload: Workload) -> Reading:
    """`webdataset.WebDataset` over the shard, members as bytes, nothing decoded."""
    import webdataset

    _sharded(workload)

    def read(source: Source) -> Iterator[tuple[str, Payload]]:
        assert source.shard is not None
        wanted = {
            one.tar_key: (one.key, [suffix.lower() for suffix in suffixes])
            for one, suffixes in zip(source.samples, source.suffixes, strict=True)
        }
        left = len(wanted)
        kinds = {suffix for _, suffixes in wanted.values() for suffix in suffixes}
        shard = webdataset.WebDataset(
            [os.path.abspath(source.shard)],  # a list is not brace-expanded, an absolute path is no pipe
            shardshuffle=False,
            empty_check=False,
            handler=webdataset.ignore_and_stop,  # at a cut; a sample that does not come out is noticed by its absence
            select_files=lambda name: name[name.find(".", name.rfind("/") + 1) + 1 :].lower() in kinds,
        )
        for found in shard:
            if found["__key__"] not in wanted:
                continue
            key, suffixes = wanted[found["__key__"]]
            yield key, tuple(found[suffix] for suffix in suffixes)
            left -= 1
            if left == 0:
                return

    return read
