"""One training step on a batch that is already there."""

from pipebench import asvbench


class Small(asvbench.Task):
    task = "step/small"


class ResNet18(asvbench.Task):
    task = "step/resnet18"
