"""Host to device. Without a CUDA device it is collected only with every row, and n/a."""

from . import asvbench


@asvbench.on_device
class Batch(asvbench.Task):
    task = "transfer/batch"
    size = "224"
    device = "cuda"
    long_view = ("pageable", "pinned-async")
