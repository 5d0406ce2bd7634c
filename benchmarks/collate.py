"""Samples to one batch tensor."""

from pipebench import asvbench


class Float32(asvbench.TaskWithMemory):
    task = "collate/float32"
    calls = 8


class UInt8(asvbench.TaskWithMemory):
    task = "collate/uint8"
    calls = 32
