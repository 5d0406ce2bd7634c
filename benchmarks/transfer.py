"""Host to device; n/a without a CUDA device."""

from . import asvbench


class Batch(asvbench.Task):
    task = "transfer/batch"
    size = "224"
