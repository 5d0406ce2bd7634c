"""Samples to one batch tensor."""

from . import asvbench


class Float32(asvbench.MemoryTask):
    task = "collate/float32"
    size = "224"
    meaning = "the last batches stay alive"
    long_view = ("default", "ring")


@asvbench.detail
class UInt8(asvbench.MemoryTask):
    task = "collate/uint8"
    size = "224"
    meaning = "the last batches stay alive"
