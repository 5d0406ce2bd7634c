"""Ceilings: the highest rates that this machine reaches, measured by the lab's own loop on the same inputs.

A ceiling does the least work that a task needs: reading bytes from the page cache into memory that is already
allocated, copying between allocated buffers, passing once over the bytes in and out, decoding with libjpeg-turbo
through its thinnest binding. Its readings alternate with those of the variants that it bounds. Which
way to do this work is fastest depends on the machine; where that is so, each way is measured, and the fastest is the
ceiling.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable, Iterator
from typing import Any

from pipebench.stages import read, transfer
from pipebench.stages.decode import Encoded, library, made_for
from pipebench.stages.read import Payload, Source
from pipebench.task import Unavailable, Workload, ceiling

LARGEST_READ = 1 << 20  # bytes in one request of a sequential read, as large as the kernel's own read-ahead


def _pages(size: int) -> mmap.mmap:
    """Anonymous memory, page aligned, with all pages faulted in.

    Alignment matters. malloc places large buffers 16 bytes after a page boundary; with destination - source ≡ 16
    (mod 4096), copies of 64–256 KiB run several times slower on some CPUs.
    """
    buffer = mmap.mmap(-1, max(size, mmap.PAGESIZE))
    for offset in range(0, len(buffer), mmap.PAGESIZE):
        buffer[offset] = 1
    return buffer


@ceiling("read/image", "read/all-members", resource="page-cache-read", cache="warm")
def page_cache_read(workload: Workload) -> Callable[[Source], Iterator[tuple[str, Payload]]]:
    """`preadv` of the same bytes from files already open, into a reused page-aligned buffer."""
    _has_places(workload)
    plans: dict[int, _Plan] = {}

    def reading(source: Source) -> Iterator[tuple[str, Payload]]:
        if id(source) not in plans:
            plans[id(source)] = _Plan(source)
        plan = plans[id(source)]
        for key, descriptor, offset, part in plan.extents:
            os.preadv(descriptor, part, offset)
            yield key, part

    return reading


def _has_places(workload: Workload) -> None:
    """Raises `Unavailable` for tables: in Parquet, the bytes of one image can be encoded and compressed with others."""
    if read.load(workload).tables:
        raise Unavailable("unfit", "an image in a table has no range of bytes in a file")


class _Plan:
    """The open files of a source; for each member to read: key, file descriptor, offset and its slice of a buffer."""

    def __init__(self, source: Source) -> None:
        files: dict[str, Any] = {}
        extents: list[tuple[str, int, int, int]] = []
        for sample, wanted in zip(source.samples, source.suffixes, strict=True):
            for path, offset, size in (_place(sample, suffix) for suffix in wanted):
                if path not in files:
                    files[path] = open(path, "rb", buffering=0)  # noqa: SIM115  # closed with the plan
                extents.append((sample.key, files[path].fileno(), offset, size))
        buffer = memoryview(_pages(max(size for *_, size in extents)))
        self.extents = [(key, file, offset, (buffer[:size],)) for key, file, offset, size in extents]
        self._files = files


def _place(sample: Any, suffix: str) -> tuple[str, int, int]:
    """Path, offset and size of one member. A shard is preferred to loose files, because fewer files are opened."""
    if suffix in sample.extents:
        extent = sample.extents[suffix]
        return extent.path, extent.offset, extent.size
    path = sample.files[suffix]
    return path, 0, os.path.getsize(path)


@ceiling("read/image", "read/all-members", resource="storage-read", cache="cold")
def storage_read(workload: Workload) -> Callable[[Source], Iterator[tuple[str, Payload]]]:
    """Sequential `preadv` of the byte range that holds the samples, cold, in 1 MiB requests with read-ahead."""
    read.shows_residency(workload)
    _has_places(workload)
    buffer = memoryview(_pages(LARGEST_READ))

    def reading(source: Source) -> Iterator[tuple[str, Payload]]:
        for path, begin, end in _stretches(source):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(descriptor, begin, end - begin, os.POSIX_FADV_WILLNEED)
                while begin < end and (count := os.preadv(descriptor, [buffer[: end - begin]], begin)):
                    begin += count
                    yield "", (buffer[:count],)
            finally:
                os.close(descriptor)

    return reading


def _stretches(source: Source) -> list[tuple[str, int, int]]:
    """Path, begin and end of each byte range to read: one range of a shard, or every loose file."""
    if not source.shard:
        return [(path, 0, os.path.getsize(path)) for _, paths in source.files for path in paths]
    places = [place for _, extents in source.extents for place in extents]
    return [(source.shard, min(offset for offset, _ in places), max(offset + size for offset, size in places))]


@ceiling(
    "decode/rgb",
    "crop/fixed-256",
    "crop/resized-224",
    resource="jpeg-decode",
    library=library("simplejpeg"),
    unfit=made_for("JPEG"),
)
def jpeg_decode(workload: Workload) -> Callable[[Encoded], Any]:
    """libjpeg-turbo through simplejpeg, into a reused buffer: the whole image."""
    from simplejpeg import decode_jpeg

    buffers: dict[int, bytearray] = {}

    def decode(given: Encoded) -> Any:
        size = given.width * given.height * 3
        buffer = buffers.get(size)
        if buffer is None:
            buffer = buffers[size] = bytearray(size)
        return decode_jpeg(given.data, "RGB", buffer=buffer)

    return decode


@ceiling("collate/float32", "collate/uint8", resource="memory-copy", way="whole batch")
def whole_copy(workload: Workload) -> Callable[[list[Any]], Any]:
    """One `memmove` of the batch's bytes between page-aligned buffers whose pages are faulted in."""
    return _memory_copy(lambda size, count: [(0, size * count)])


@ceiling("collate/float32", "collate/uint8", resource="memory-copy", way="sample by sample")
def sample_copy(workload: Workload) -> Callable[[list[Any]], Any]:
    """The same bytes in one `memmove` for each sample: above some MB, libc copies in a way that can be slower."""
    return _memory_copy(lambda size, count: [(index * size, size) for index in range(count)])


def _memory_copy(cut: Callable[[int, int], list[tuple[int, int]]]) -> Callable[[list[Any]], Any]:
    """Copies as many bytes as a list of samples has. `cut` divides them: size and number of samples -> offset, size."""
    import torch

    arenas: dict[int, tuple[Any, Any, list[tuple[int, int, int]]]] = {}
    memmove = ctypes.memmove

    def copy(samples: list[Any]) -> Any:
        if id(samples) not in arenas:
            size, count = int(samples[0].nbytes), len(samples)
            batch, source = (
                torch.frombuffer(_pages(size * count), dtype=torch.uint8)[: size * count] for _ in range(2)
            )
            to, of = batch.data_ptr(), source.data_ptr()
            arenas[id(samples)] = batch, source, [(to + at, of + at, part) for at, part in cut(size, count)]
        batch, _, parts = arenas[id(samples)]
        for to, of, part in parts:
            memmove(to, of, part)
        return batch

    return copy


@ceiling("transfer/batch", resource="pinned-copy")
def pinned_copy(workload: Workload) -> Callable[[transfer.HostBatch], Any]:
    """One asynchronous copy from pinned memory into a device tensor that is already there."""
    transfer.needs_device(workload)
    return _device_copy(lambda given: given.pinned)


@ceiling("transfer/batch", resource="pageable-copy")
def pageable_copy(workload: Workload) -> Callable[[transfer.HostBatch], Any]:
    """One copy from pageable memory into a device tensor that is already there."""
    transfer.needs_device(workload)
    return _device_copy(lambda given: given.pageable)


def _device_copy(pick: Callable[[transfer.HostBatch], Any]) -> Callable[[transfer.HostBatch], Any]:
    import torch

    targets: dict[tuple[int, ...], Any] = {}

    def copy(given: transfer.HostBatch) -> Any:
        source = pick(given)
        if source.shape not in targets:
            targets[source.shape] = torch.empty_like(source, device="cuda")
        return targets[source.shape].copy_(source, non_blocking=True)

    return copy


@ceiling("transform/dilate", "transform/mask", resource="memory-pass")
def pass_over_bytes(workload: Workload) -> Callable[[Any], Any]:
    """One pass over the bytes in and out of each sample, in aligned buffers whose pages are faulted in."""
    return _one_pass(1)


@ceiling("transform/yuv", "transform/flip-normalise", resource="memory-pass")
def pass_to_float(workload: Workload) -> Callable[[Any], Any]:
    """One pass over the bytes in and the float32 out of each sample, in aligned buffers whose pages are faulted in."""
    return _one_pass(4)


def _one_pass(bytes_out: int) -> Callable[[Any], Any]:
    """A function that reads all input bytes of a batch and writes `bytes_out` for each byte of its crops (or masks).

    libc copies as many as there are on both sides, and fills or scans what one side has more.
    """
    import torch

    libc = ctypes.CDLL(None)
    libc.memchr.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)
    arenas: dict[int, tuple[Any, Any]] = {}  # by the batch's id: input and output, a row for each sample

    def arena(given: Any) -> tuple[Any, Any]:
        main = given.crops or given.masks
        read_bytes = sum(int(one[0].nbytes) for one in (given.crops, given.masks) if one)
        rows = [(len(main), size) for size in (read_bytes, int(main[0].nbytes) * bytes_out)]
        source, made = (
            torch.frombuffer(_pages(count * size), dtype=torch.uint8)[: count * size].view(count, size)
            for count, size in rows
        )
        source.fill_(1)
        return source, made

    def pass_over(given: Any) -> Any:
        if id(given) not in arenas:
            arenas[id(given)] = arena(given)
        source, made = arenas[id(given)]
        count, read_bytes = source.shape
        written = made.shape[1]
        both = min(read_bytes, written)
        begin, into = source.data_ptr(), made.data_ptr()
        for index in range(count):
            here, there = begin + index * read_bytes, into + index * written
            ctypes.memmove(there, here, both)
            if written > both:
                ctypes.memset(there + both, 0, written - both)
            elif read_bytes > both:
                libc.memchr(here + both, 0, read_bytes - both)  # there is no 0, so it reads to the end
        return made

    return pass_over
