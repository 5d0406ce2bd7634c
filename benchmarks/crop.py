"""Encoded bytes to one crop, which is made before or after the conversion to a tensor."""

from . import asvbench


class Fixed256(asvbench.MemoryTask):
    task = "crop/fixed-256"
    size = "256"
    long_view = ("region", "region-packed")


class Resized224(asvbench.MemoryTask):
    task = "crop/resized-224"
    size = "224"
    long_view = ("tensor-first", "region-exact")


@asvbench.on_device
class OnDevice(asvbench.Task):
    task = "crop/on-device"
    size = "224"
    device = "cuda"
    long_view = ("tensor-first",)
