"""Reads the state of the page cache for files, and fills or drops it.

"Cold" means that a file is not in this machine's page cache. Caches of a hypervisor or a drive are invisible here.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterable


def drop(paths: Iterable[str]) -> None:
    """Asks the kernel to drop the files' pages, after a sync of dirty pages. It needs no privilege."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fdatasync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def fill(paths: Iterable[str]) -> None:
    """Reads the files once, so that a warm measurement starts warm."""
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            while file.read(1 << 22):
                pass


def residency(paths: Iterable[str]) -> float | None:
    """The fraction (0 to 1) of the files' pages that are in the page cache, by `mincore`.

    None if it cannot be read. Since Linux 5.2 `mincore` gives a true answer only to the owner of a file and to users
    who may write to it. None also if the files have no pages.
    """
    resident = pages = 0
    for path in paths:
        counted = _resident_pages(path)
        if counted is None:
            return None
        resident, pages = resident + counted[0], pages + counted[1]
    return resident / pages if pages else None


def may_know(path: str) -> bool:
    """Whether the kernel tells this user the truth: to the owner of a file, and to users who may write to it."""
    return os.access(path, os.W_OK) or os.stat(path).st_uid == os.geteuid()


def _resident_pages(path: str) -> tuple[int, int] | None:
    if not may_know(path):
        return None
    size = os.path.getsize(path)
    if size == 0:
        return 0, 0
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    descriptor = os.open(path, os.O_RDONLY)
    try:
        address = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
    finally:
        os.close(descriptor)
    if address in (None, ctypes.c_void_p(-1).value):
        return None
    pages = -(-size // mmap.PAGESIZE)
    vector = ctypes.create_string_buffer(pages)
    answered = libc.mincore(address, size, vector) == 0
    libc.munmap(address, size)
    return (sum(byte & 1 for byte in vector.raw[:pages]), pages) if answered else None
