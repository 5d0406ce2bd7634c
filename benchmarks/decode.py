"""JPEG decoders, whole image to RGB."""

from pipebench import asvbench


class RGB(asvbench.Task):
    task = "decode/rgb"
    calls = 2
