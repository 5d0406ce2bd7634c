"""NVIDIA DALI: its image decoder, whole and of a region, on the CPU and on a GPU ("mixed").

The CPU operators need no driver. A pipeline has threads of its own, which do not outlive the fork of a measuring
process. So it is made at the first call, which is not timed.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pipebench.errors import SampleError
from pipebench.stages import on_device
from pipebench.stages.crop import Cropping
from pipebench.stages.decode import Decoding, made_for
from pipebench.stages.on_device import BATCH, CROP, JPEG_ONLY, SIDE, Calling, waited_for
from pipebench.task import Workload, variant
from pipebench.units import printable

Graph = Callable[[Any, Any, str], Any]  # fn, types, and "cpu" or "mixed": to the pixels of the pipeline's inputs


def _library() -> str:
    return f"DALI {importlib.import_module('nvidia.dali').__version__}"


DALI: dict[str, Any] = {"library": _library, "extra": "dali"}


class Pipeline(threading.local):
    """A pipeline of each thread, made at its first call there, and made anew after an error, which ends it."""

    def __init__(self, graph: Graph, inputs: Sequence[str], most: int, device: str) -> None:
        self._dali: Any = importlib.import_module("nvidia.dali")
        self._graph, self._inputs, self._most, self._device = graph, inputs, most, device
        self._made: Any = None

    def __call__(self, *given: Sequence[Any]) -> Any:
        """The batch's pixels as a list of DALI's tensors. They stay as they are when the next batch is made."""
        if self._made is None:
            self._made = self._pipeline()
        try:
            return self._made.run(**dict(zip(self._inputs, given, strict=True)))[0]
        except RuntimeError as error:
            self._made = None
            raise SampleError("undecodable", _said(error)) from error

    def _pipeline(self) -> Any:
        fn, types = (importlib.import_module(f"nvidia.dali.{name}") for name in ("fn", "types"))
        on_gpu = self._device == "cuda"
        pipeline = self._dali.Pipeline(
            batch_size=self._most,
            num_threads=1,
            device_id=_current_device() if on_gpu else None,
            prefetch_queue_depth=1,
            exec_dynamic=True,  # the other executor writes the next batch into the same memory
        )
        with pipeline:
            pipeline.set_outputs(self._graph(fn, types, "mixed" if on_gpu else "cpu"))
        pipeline.build()
        return pipeline


def _current_device() -> int:
    import torch

    return torch.cuda.current_device()


def _said(error: RuntimeError) -> str:
    """What DALI says of the fault itself, between the place in the pipeline's definition and the end."""
    lines = [line.strip() for line in str(error).partition("encountered:")[2].splitlines()]
    said = next((line for line in lines if line), str(error).strip().partition("\n")[0])
    return f"DALI: {printable(said)}"


def _encoded(fn: Any, types: Any) -> Any:
    return fn.external_source(name="encoded", dtype=types.UINT8, ndim=1, device="cpu")


def _whole(fn: Any, types: Any, device: str) -> Any:
    return fn.decoders.image(_encoded(fn, types), device=device, output_type=types.RGB, adjust_orientation=False)


def _box(fn: Any, types: Any) -> list[Any]:
    return [fn.external_source(name=name, dtype=types.INT32, ndim=1, device="cpu") for name in ("begin", "shape")]


def _part(fn: Any, types: Any, device: str) -> Any:
    return _resized(fn, types, fn.decoders.image_slice(
        _encoded(fn, types), *_box(fn, types), axis_names="HW", device=device, output_type=types.RGB,
        adjust_orientation=False,
    ))  # fmt: skip


def _part_of_whole(fn: Any, types: Any, device: str) -> Any:
    return _resized(fn, types, fn.slice(_whole(fn, types, device), *_box(fn, types), axis_names="HW"))


def _resized(fn: Any, types: Any, images: Any) -> Any:
    resized = fn.resize(images, size=[SIDE, SIDE], interp_type=types.INTERP_LINEAR, antialias=True)
    return fn.transpose(resized, perm=[2, 0, 1])


def _bytes_of(images: Sequence[Any]) -> list[Any]:
    return [np.frombuffer(one.data, np.uint8) for one in images]


def _boxes_of(images: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Of each box: top and left, height and width."""
    boxes = [one.box for one in images]
    return (
        [np.array((top, left), np.int32) for left, top, _, _ in boxes],
        [np.array((height, width), np.int32) for _, _, width, height in boxes],
    )


@variant("decode/rgb", name="dali", unfit=made_for("JPEG", "PNG", "WEBP"), **DALI)
def dali(workload: Workload) -> Decoding:
    """DALI's `fn.decoders.image` on the CPU, in batches of one image."""
    pipeline = Pipeline(_whole, ["encoded"], 1, "cpu")
    return lambda given: np.asarray(pipeline(_bytes_of([given]))[0])


@variant("crop/resized-224", name="dali-roi", partial=True, unfit=made_for("JPEG"), **DALI)
def dali_roi(workload: Workload) -> Cropping:
    """DALI's `fn.decoders.image_slice` on the CPU, which decodes only the box, and `fn.resize`; batches of one."""
    pipeline = Pipeline(_part, ["encoded", "begin", "shape"], 1, "cpu")
    return lambda given: _tensors(pipeline(_bytes_of([given]), *_boxes_of([given])))[0]


@variant(on_device.DECODE, name="dali", **DALI, **JPEG_ONLY)
def dali_mixed(workload: Workload) -> Calling:
    """DALI's `fn.decoders.image(device="mixed")`: nvJPEG, one thread of the CPU, the batch in one call."""
    return waited_for(workload, _decoder)


def _decoder(device: str) -> Callable[[Sequence[Any]], list[Any]]:
    pipeline = Pipeline(_whole, ["encoded"], BATCH, device)
    return lambda images: _tensors(pipeline(_bytes_of(images)))


def _tensors(made: Any) -> list[Any]:
    from torch.utils import dlpack

    return [dlpack.from_dlpack(made[place]) for place in range(len(made))]


@variant(CROP, name="dali", **DALI, **JPEG_ONLY)
def dali_crop(workload: Workload) -> Calling:
    """DALI's mixed decoder for the whole image, then `fn.slice` and `fn.resize` on the GPU."""
    return waited_for(workload, lambda device: _cropper(_part_of_whole, device))


@variant(CROP, name="dali-roi", **DALI, **JPEG_ONLY)
def dali_roi_mixed(workload: Workload) -> Calling:
    """DALI's mixed `fn.decoders.image_slice`, which decodes only the box, then `fn.resize` on the GPU."""
    return waited_for(workload, lambda device: _cropper(_part, device))


def _cropper(graph: Graph, device: str) -> Callable[[Sequence[Any]], list[Any]]:
    pipeline = Pipeline(graph, ["encoded", "begin", "shape"], BATCH, device)
    return lambda images: _tensors(pipeline(_bytes_of(images), *_boxes_of(images)))
