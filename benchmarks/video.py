"""Frames of the embedded video, in order, at random and as clips. NVDEC is measured by `pipebench run`."""

from . import asvbench


@asvbench.detail
class Sequential(asvbench.Task):
    task = "video/sequential"


@asvbench.detail
class Random(asvbench.Task):
    task = "video/random"


@asvbench.detail
class Clip(asvbench.Task):
    task = "video/clip"
