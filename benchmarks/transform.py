"""Transforms of a batch: sample by sample or all at once."""

from pipebench import asvbench


class Mask(asvbench.Task):
    task = "transform/mask"
    calls = 32


class YUV(asvbench.Task):
    task = "transform/yuv"
    calls = 32


class FlipNormalise(asvbench.Task):
    task = "transform/flip-normalise"
    calls = 32
