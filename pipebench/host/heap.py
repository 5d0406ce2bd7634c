"""The state of this process's heap that readings are taken in: that of a process which has run for a while (glibc)."""

import contextlib
import ctypes

SETTLING_BYTES = 31 << 20
ALIKE = 2 << 20  # caches, pages and the processor's guesses about addresses see no further bits
_PROBE = 8 << 20


def settle() -> None:
    """Brings malloc into its settled state by freeing one large block.

    Freeing a block raises the size below which malloc keeps memory for reuse (to at most 32 MiB; see mallopt(3),
    M_MMAP_THRESHOLD). Before that, each image-sized buffer goes back to the kernel and is faulted in again, which can
    double the time of a decode. Without this, a row would depend on the variants that ran before it in its process.
    """
    bytearray(SETTLING_BYTES)


def give_back() -> None:
    """Gives free memory at the end of the heap back to the kernel, so that a forked process shares none with another.

    What a server has freed would decide whether malloc gives back each batch that is freed (mallopt(3),
    M_TRIM_THRESHOLD), in all its processes alike. Without this, a collate took 2.2 ms in the processes of one server
    and 5.2 ms in those of the next. And a page that two processes share is copied where one of them writes to it: that
    takes small pages, which lie elsewhere in each process.
    """
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def map_free_memory() -> None:
    """Writes to memory at the end of a settled heap and frees it, so that what comes from there is mapped.

    Where several variants keep batches, the holes that one leaves are too small for another, and the heap grows.
    Without this, a collate into ordinary memory took ten times as long in the lab as in a loader without workers.
    """
    b"1" * (SETTLING_BYTES - (1 << 20))  # smaller than what was freed before, so it is of the heap


def end_at(offset: int) -> None:
    """Makes the used part of a settled heap end at an address that is `offset` modulo `ALIKE`, for the whole process.

    Large buffers come from there. Two programs that differ by a few small objects then get them at addresses that look
    alike. A block is asked for and made smaller, so that it ends there; it is never freed.
    """
    libc = ctypes.CDLL(None)
    libc.malloc.restype = libc.realloc.restype = ctypes.c_void_p
    if block := libc.malloc(ctypes.c_size_t(_PROBE)):
        libc.realloc(ctypes.c_void_p(block), ctypes.c_size_t((offset - block) % ALIKE or ALIKE))
