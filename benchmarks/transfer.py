"""Host to device; n/a without a CUDA device."""

from pipebench import asvbench


class Batch(asvbench.Task):
    task = "transfer/batch"
    calls = 32
