"""The state of this process's heap that readings are taken in: that of a process which has run for a while (glibc)."""

SETTLING_BYTES = 31 << 20


def settle() -> None:
    """Brings malloc into its settled state by freeing one large block.

    Freeing a block raises the size below which malloc keeps memory for reuse (to at most 32 MiB; see mallopt(3),
    M_MMAP_THRESHOLD). Before that, each image-sized buffer goes back to the kernel and is faulted in again, which can
    double the time of a decode. Without this, a row would depend on the variants that ran before it in its process.
    """
    bytearray(SETTLING_BYTES)


def map_free_memory() -> None:
    """Writes to memory at the end of a settled heap and frees it, so that what comes from there is mapped.

    Where several variants keep batches, the holes that one leaves are too small for another, and the heap grows.
    Without this, a collate into ordinary memory took ten times as long in the lab as in a loader without workers.
    """
    b"1" * (SETTLING_BYTES - (1 << 20))  # smaller than what was freed before, so it is of the heap
