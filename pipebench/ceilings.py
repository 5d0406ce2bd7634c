"""What this machine can do at most, measured by the same loop, on the same inputs, between the readings it bounds.

A ceiling does the least that the task's contract needs: bytes from the page cache into memory that is already there, a
copy between buffers that are already there, libjpeg-turbo through its thinnest binding.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable, Iterator
from typing import Any

from pipebench.stage import Workload, ceiling
from pipebench.stages import read, transfer
from pipebench.stages.decode import Encoded, library
from pipebench.stages.read import Payload, Source

LARGEST_READ = 1 << 20  # bytes of one request of a sequential read, as the kernel's read-ahead issues them


def _pages(size: int) -> mmap.mmap:
    """Anonymous memory, page aligned and already faulted in.

    Alignment matters: with destination minus source ≡ 16 (mod 4096), where malloc puts large buffers, copies of
    64–256 KiB run several times slower on some CPUs.
    """
    buffer = mmap.mmap(-1, max(size, mmap.PAGESIZE))
    for offset in range(0, len(buffer), mmap.PAGESIZE):
        buffer[offset] = 1
    return buffer


@ceiling("read/image", "read/all-members", resource="page-cache-read", cache="warm")
def page_cache_read(workload: Workload) -> Callable[[Source], Iterator[tuple[str, Payload]]]:
    """`preadv` of the same bytes from files already open, into a reused page-aligned buffer."""
    plans: dict[int, _Plan] = {}

    def reading(source: Source) -> Iterator[tuple[str, Payload]]:
        if id(source) not in plans:
            plans[id(source)] = _Plan(source)
        plan = plans[id(source)]
        for key, descriptor, offset, size in plan.extents:
            part = plan.buffer[:size]
            os.preadv(descriptor, [part], offset)
            yield key, (part,)

    return reading


class _Plan:
    """The files of a source, open; the buffer; and key, descriptor, offset and size of each member a call reads."""

    def __init__(self, source: Source) -> None:
        files: dict[str, Any] = {}
        self.extents: list[tuple[str, int, int, int]] = []
        for sample, wanted in zip(source.samples, source.suffixes, strict=True):
            for path, offset, size in (_place(sample, suffix) for suffix in wanted):
                if path not in files:
                    files[path] = open(path, "rb", buffering=0)  # noqa: SIM115  # closed with the plan
                self.extents.append((sample.key, files[path].fileno(), offset, size))
        self.buffer = memoryview(_pages(max(size for *_, size in self.extents)))
        self._files = files


def _place(sample: Any, suffix: str) -> tuple[str, int, int]:
    """Path, offset and size of one member, from its loose file where there is one."""
    if suffix in sample.files:
        path = sample.files[suffix]
        return path, 0, os.path.getsize(path)
    extent = sample.extents[suffix]
    return extent.path, extent.offset, extent.size


@ceiling("read/image", "read/all-members", resource="storage-read", cache="cold")
def storage_read(workload: Workload) -> Callable[[Source], Iterator[tuple[str, Payload]]]:
    """Sequential `preadv` of the same files with a cold cache, in requests of 1 MiB."""
    read.shows_residency(workload)
    buffer = memoryview(_pages(LARGEST_READ))

    def reading(source: Source) -> Iterator[tuple[str, Payload]]:
        for path in [source.shard] if source.shard else [path for _, paths in source.files for path in paths]:
            descriptor = os.open(path, os.O_RDONLY)
            try:
                offset = 0
                while count := os.preadv(descriptor, [buffer], offset):
                    offset += count
                    yield "", (buffer[:count],)
            finally:
                os.close(descriptor)

    return reading


@ceiling("decode/rgb", "crop/fixed-256", "crop/resized-224", resource="jpeg-decode", library=library("simplejpeg"))
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


@ceiling("collate/float32", "collate/uint8", resource="memory-copy")
def memory_copy(workload: Workload) -> Callable[[list[Any]], Any]:
    """`memmove` of as many bytes in as many pieces, between page-aligned buffers that are already faulted in."""
    import torch

    arenas: dict[int, tuple[Any, list[tuple[int, int]], int]] = {}

    def copy(samples: list[Any]) -> Any:
        if id(samples) not in arenas:
            arenas[id(samples)] = _arena(samples)
        batch, places, size = arenas[id(samples)]
        for destination, source in places:
            ctypes.memmove(destination, source, size)
        return batch

    def _arena(samples: list[Any]) -> tuple[Any, list[tuple[int, int]], int]:
        size, count = int(samples[0].nbytes), len(samples)
        step = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        sources, batch = (torch.frombuffer(_pages(step * count), dtype=torch.uint8) for _ in range(2))
        keep.append(sources)
        base, target = sources.data_ptr(), batch.data_ptr()
        return batch[: size * count], [(target + row * step, base + row * step) for row in range(count)], size

    keep: list[Any] = []
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
