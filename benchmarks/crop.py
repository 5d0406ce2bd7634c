"""Encoded bytes to one crop: before or after the tensor."""

from . import asvbench


class Fixed256(asvbench.MemoryTask):
    task = "crop/fixed-256"
    size = "256"


class Resized224(asvbench.MemoryTask):
    task = "crop/resized-224"
    size = "224"
