"""Transforms of a batch: sample by sample or all at once."""

from . import asvbench


@asvbench.detail
class Dilate(asvbench.Task):
    task = "transform/dilate"
    size = "256"
    meaning = "16 crops a batch"


@asvbench.detail
class Mask(asvbench.Task):
    task = "transform/mask"
    size = "256"
    meaning = "applies a mask that is dilated already; 16 crops a batch"  # before, it dilated the mask too


@asvbench.detail
class YUV(asvbench.Task):
    task = "transform/yuv"
    size = "256"
    meaning = "16 crops a batch"


class FlipNormalise(asvbench.Task):
    task = "transform/flip-normalise"
    size = "224"
    meaning = "16 crops a batch"
    long_view = ("v1-sample", "v2-batch")
