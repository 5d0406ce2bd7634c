"""Encoded bytes to one crop: before or after the tensor."""

from pipebench import asvbench


class Fixed256(asvbench.TaskWithMemory):
    task = "crop/fixed-256"
    calls = 4


class Resized224(asvbench.TaskWithMemory):
    task = "crop/resized-224"
    calls = 4
