"""NVIDIA nvImageCodec: whole images and regions of them, with its CPU backend and on a GPU.

The CPU backend needs no driver. A decoder has threads of its own, so it is made at the first call, which is not timed:
it would not outlive the fork of a measuring process.
"""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pipebench.errors import SampleError
from pipebench.stages import on_device
from pipebench.stages.crop import Cropping, Cut
from pipebench.stages.decode import Decoding, made_for
from pipebench.stages.on_device import CROP, JPEG_ONLY, Calling, waited_for
from pipebench.task import Workload, variant

SMOOTH = ":fancy_upsampling=1"  # of chroma, as libjpeg-turbo and so the reference does it


def _module() -> Any:
    os.environ.setdefault("PYNVIMGCODEC_VERBOSITY", "0")  # it prints each image that it cannot decode, in colours
    return importlib.import_module("nvidia.nvimgcodec")


def _library() -> str:
    return f"nvImageCodec {_module().__version__}"


NVIMAGECODEC: dict[str, Any] = {"library": _library, "extra": "nvimagecodec"}


class Decoder(threading.local):
    """A decoder to RGB of each thread, made at its first call there. Images are as stored, not turned by EXIF."""

    def __init__(self, device: str) -> None:
        self._codec, self._device = _module(), device
        self._made: Any = None

    def __call__(self, images: Sequence[Any], boxes: Sequence[tuple[int, int, int, int]] = ()) -> list[Any]:
        """A height × width × 3 tensor of each image, or of its box. Raises `SampleError` if it cannot decode one."""
        if self._made is None:
            self._made = self._decoder()
        streams = [self._stream(one.data, *box) for one, *box in zip(images, *([boxes] if boxes else []), strict=True)]
        found = self._made(streams)
        if any(one is None for one in found):
            raise SampleError("undecodable", "nvImageCodec returned no image")
        return list(map(self._tensor, found))

    def _stream(self, data: bytes, box: tuple[int, int, int, int] | None = None) -> Any:
        try:
            stream = self._codec.CodeStream(data)
        except RuntimeError as error:
            raise SampleError("undecodable", f"nvImageCodec: {error}") from error
        if box is None:
            return stream
        left, top, width, height = box
        return stream.get_sub_code_stream(region=self._codec.Region(top, left, top + height, left + width))

    def _decoder(self) -> Callable[[Sequence[Any]], list[Any]]:
        codec = self._codec
        wanted = codec.DecodeParams(
            apply_exif_orientation=False, color_spec=codec.ColorSpec.SRGB, sample_format=codec.SampleFormat.I_RGB
        )
        if self._device == "cuda":
            import torch

            decoder = codec.Decoder(device_id=torch.cuda.current_device(), max_num_cpu_threads=1, options=SMOOTH)
            stream = torch.cuda.current_stream
            return lambda streams: decoder.decode(streams, params=wanted, cuda_stream=stream().cuda_stream)
        backends = [codec.Backend(codec.BackendKind.CPU_ONLY)]
        nowhere = codec.NVIMGCODEC_DEVICE_CPU_ONLY
        decoder = codec.Decoder(device_id=nowhere, max_num_cpu_threads=1, backends=backends, options=SMOOTH)
        return lambda streams: decoder.decode(streams, params=wanted)

    def _tensor(self, image: Any) -> Any:
        import torch
        from torch.utils import dlpack

        if self._device == "cuda":
            return dlpack.from_dlpack(image)
        return torch.from_numpy(np.asarray(image))  # DLPack asks for a driver here, also for an image on the host


@variant("decode/rgb", name="nvimagecodec", unfit=made_for("JPEG"), **NVIMAGECODEC)
def nvimagecodec(workload: Workload) -> Decoding:
    """nvImageCodec's CPU backend, `Decoder.decode`, one thread."""
    decoder = Decoder("cpu")
    return lambda given: decoder([given])[0].numpy()


@variant("crop/resized-224", name="nvimagecodec-roi", partial=True, unfit=made_for("JPEG"), **NVIMAGECODEC)
def nvimagecodec_roi(workload: Workload) -> Cropping:
    """nvImageCodec's CPU backend on the box alone (`get_sub_code_stream`), then torchvision's v2 resize."""
    cropper = _cropper("cpu")
    return lambda given: cropper([given])[0]


@variant(on_device.DECODE, name="nvimagecodec", **NVIMAGECODEC, **JPEG_ONLY)
def nvimagecodec_batch(workload: Workload) -> Calling:
    """nvImageCodec's `Decoder.decode` of the batch in one call, with the backends that it chooses by itself."""
    return waited_for(workload, Decoder)


@variant(on_device.DECODE, name="nvimagecodec-single", **NVIMAGECODEC, **JPEG_ONLY)
def nvimagecodec_single(workload: Workload) -> Calling:
    """The same with one call for each image."""
    return waited_for(workload, lambda device: on_device.one_by_one(Decoder(device)))


@variant(CROP, name="nvimagecodec-roi", **NVIMAGECODEC, **JPEG_ONLY)
def nvimagecodec_roi_batch(workload: Workload) -> Calling:
    """nvImageCodec on the boxes alone, the batch in one call, then torchvision's v2 resize on the device."""
    return waited_for(workload, _cropper)


def _cropper(device: str) -> Callable[[Sequence[Cut]], Any]:
    import torch
    from torchvision.transforms.v2 import functional

    decoder = Decoder(device)

    def cropped(images: Sequence[Cut]) -> Any:
        parts = decoder(images, [one.box for one in images])
        size = [images[0].size] * 2
        return torch.stack([functional.resize(one.permute(2, 0, 1), size, antialias=True) for one in parts])

    return cropped
