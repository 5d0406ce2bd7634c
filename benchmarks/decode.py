"""JPEG decoders, whole image to RGB."""

from . import asvbench


class RGB(asvbench.Task):
    task = "decode/rgb"
    long_view = ("pillow", "torchvision")
