"""JPEG decoders, whole image to RGB."""

from . import asvbench


class RGB(asvbench.Task):
    task = "decode/rgb"
    long_view = ("pillow", "torchvision")


@asvbench.on_device
class OnDevice(asvbench.Task):
    task = "decode/on-device"
    device = "cuda"
    long_view = ("torchvision",)
