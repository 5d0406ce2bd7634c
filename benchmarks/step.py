"""One training step on a batch that is already in memory."""

from . import asvbench


class Small(asvbench.Task):
    task = "step/small"
    size = "224"


@asvbench.detail
class ResNet18(asvbench.Task):
    task = "step/resnet18"
    size = "224"
