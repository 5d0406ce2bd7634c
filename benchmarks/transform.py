"""Transforms of a batch: sample by sample or all at once."""

from . import asvbench


class Mask(asvbench.Task):
    task = "transform/mask"
    size = "256"


class YUV(asvbench.Task):
    task = "transform/yuv"
    size = "256"


class FlipNormalise(asvbench.Task):
    task = "transform/flip-normalise"
    size = "224"
