"""Transforms of a batch: sample by sample or all at once."""

from . import asvbench


class Dilate(asvbench.Task):
    task = "transform/dilate"
    size = "256"


class Mask(asvbench.Task):
    task = "transform/mask"
    size = "256"
    meaning = "applies a mask that is dilated already"  # before, it dilated the mask too


class YUV(asvbench.Task):
    task = "transform/yuv"
    size = "256"


class FlipNormalise(asvbench.Task):
    task = "transform/flip-normalise"
    size = "224"
