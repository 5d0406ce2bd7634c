"""Decode and crop on a GPU: from encoded bytes in host memory to pixels in the device's memory, a batch at a time.

The first rows of each task decode on one core and copy the pixels, as a worker and its training loop do together.
The others send the encoded bytes to the device. Each call waits for the device, whatever streams a library uses, so
that the clock's events hold all of its work. Without a device, every row is skipped. The rows of DALI and nvImageCodec
are in their own modules.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pipebench.errors import SampleError
from pipebench.native import region
from pipebench.stages import crop, decode, read
from pipebench.stages.decode import as_tensor, encoded, library, made_for, pillow_library, quiet_torchvision
from pipebench.stages.transfer import needs_device
from pipebench.task import Task, Unavailable, Variant, Work, Workload, task, variant
from pipebench.units import printable

BATCH = 32  # images of a call
SIDE = 224  # pixels of a crop
DECODE, CROP = "decode/on-device", "crop/on-device"


@dataclass(frozen=True)
class Batch:
    """The images of one call (`Encoded`, or `Cut` for crops), their keys, and the device of their pixels."""

    keys: tuple[str, ...]
    images: tuple[Any, ...]
    device: str


Making = Callable[[str], Callable[[Sequence[Any]], Any]]  # from a device to what makes pixels of images there


def _groups(workload: Workload) -> list[tuple[str, ...]]:
    keys = [key for group in read.keys(workload) for key in group]
    return [tuple(keys[begin : begin + BATCH]) for begin in range(0, len(keys), BATCH)]


def _whole(workload: Workload, keys: Sequence[str]) -> list[Batch]:
    return [Batch(tuple(keys), tuple(encoded(workload, key) for key in keys), workload.device)]


def _cut(workload: Workload, keys: Sequence[str]) -> list[Batch]:
    return [Batch(tuple(keys), tuple(crop.cuts(workload, keys, SIDE, crop.resized_box)), workload.device)]


Made = tuple[Any, Any]  # an image, and its pixels as a tensor


def _split(given: Batch, output: Any) -> list[tuple[tuple[str, ...], Made]]:
    if len(output) != len(given.images):
        raise SampleError("contract", f"{len(output)} images came out of {len(given.images)}")
    return [((key,), made) for key, *made in zip(given.keys, given.images, output, strict=True)]  # type: ignore[misc]


def on_host(made: Made) -> Any:
    """The pixels in host memory, 3 × height × width. Some libraries give height × width × 3."""
    image, tensor = made
    planar = tensor.cpu()
    return planar.permute(2, 0, 1) if tuple(planar.shape) == (image.height, image.width, 3) else planar


def _check(output: Made, given: Batch, of: Callable[[Any, Any], None]) -> None:
    if output[1].device.type != given.device:
        raise SampleError("contract", f"it is on {output[1].device}, not on the {given.device} device")
    of(on_host(output), output[0])


def _agree(output: Made, expected: Made, variant: Variant, of: Callable[..., None]) -> None:
    of(on_host(output), on_host(expected), variant)


def _work(given: Batch, output: Any) -> Work:
    return Work(len(given.images), sum(len(one.data) for one in given.images), sum(int(one.nbytes) for one in output))


for _id, _summary, _inputs, _checked, _agreed in (
    (DECODE, f"{BATCH} encoded images to RGB uint8 in a GPU's memory", _whole, decode.check, decode.agree),
    (
        CROP,
        f"{BATCH} encoded images to random resized {SIDE}×{SIDE} crops in a GPU's memory",
        _cut,
        crop.check,
        functools.partial(crop.agree, exact=False),
    ),
):
    task(
        Task(
            id=_id,
            summary=_summary,
            groups=_groups,
            inputs=_inputs,
            check=functools.partial(_check, of=_checked),
            agree=functools.partial(_agree, of=_agreed),
            work=_work,
            per_call=lambda workload: BATCH,
            split=_split,
            on_device=True,
        )
    )


def _no_jpeg(given: Batch) -> str | None:
    reasons = map(made_for("JPEG"), given.images)
    return next((reason for reason in reasons if reason), None)


JPEG_ONLY: dict[str, Any] = {"unfit": _no_jpeg}
Calling = Callable[[Batch], Any]


def waited_for(workload: Workload, make: Making) -> Calling:
    """What is timed: the pixels of a batch, when the device has made all of them.

    Raises `Unavailable` without a device, before any library is imported.
    """
    needs_device(workload)
    call = make(workload.device)

    def timed(given: Batch) -> Any:
        made = call(given.images)
        wait()
        return made

    return timed


def wait() -> None:
    """Returns when the device has done all that it was given, on every stream."""
    import torch

    torch.cuda.synchronize()


@variant(DECODE, name="pillow", library=pillow_library)
def pillow(workload: Workload) -> Calling:
    """Pillow on one core, one image after the other, and a copy of each to the device."""
    return waited_for(workload, functools.partial(_copied, decode.pillow(workload)))


@variant(DECODE, name="simplejpeg", library=library("simplejpeg"), extra="simplejpeg", **JPEG_ONLY)
def simplejpeg(workload: Workload) -> Calling:
    """simplejpeg on one core, one image after the other, and a copy of each to the device."""
    return waited_for(workload, lambda device: _copied(decode.simplejpeg(workload), device))


def _copied(decoder: Callable[[Any], Any], device: str) -> Callable[[Sequence[Any]], list[Any]]:
    import torch

    return lambda images: [torch.from_numpy(decoder(one)).to(device) for one in images]


@variant(DECODE, name="torchvision", library=library("torchvision"), **JPEG_ONLY)
def torchvision(workload: Workload) -> Calling:
    """`torchvision.io.decode_jpeg(images, device="cuda")`: nvJPEG, the batch in one call."""
    return waited_for(workload, _torchvision)


@variant(DECODE, name="torchvision-single", library=library("torchvision"), **JPEG_ONLY)
def torchvision_single(workload: Workload) -> Calling:
    """The same with one call for each image."""
    return waited_for(workload, lambda device: one_by_one(_torchvision(device)))


def _torchvision(device: str) -> Callable[[Sequence[Any]], Any]:
    io_ = quiet_torchvision()
    decode_jpeg = functools.partial(io_.decode_jpeg, mode=io_.ImageReadMode.RGB, device=device)
    return _able(lambda images: decode_jpeg([as_tensor(one.data) for one in images]))


@variant(DECODE, name="torchcodec", library=library("torchcodec"), extra="torchcodec", **JPEG_ONLY)
def torchcodec(workload: Workload) -> Calling:
    """`torchcodec.decoders.decode_jpeg(images, device="cuda")`: nvJPEG, the batch in one call."""
    return waited_for(workload, _torchcodec)


@variant(DECODE, name="torchcodec-single", library=library("torchcodec"), extra="torchcodec", **JPEG_ONLY)
def torchcodec_single(workload: Workload) -> Calling:
    """The same with one call for each image."""
    return waited_for(workload, lambda device: one_by_one(_torchcodec(device)))


def _torchcodec(device: str) -> Callable[[Sequence[Any]], Any]:
    from torchcodec.decoders import decode_jpeg  # type: ignore[attr-defined]  # exported, but not by name

    return _able(lambda images: decode_jpeg([one.data for one in images], mode="RGB", device=device))


def one_by_one(call: Callable[[Sequence[Any]], Any]) -> Callable[[Sequence[Any]], list[Any]]:
    return lambda images: [call([one])[0] for one in images]


def _able(call: Callable[[Sequence[Any]], Any]) -> Callable[[Sequence[Any]], Any]:
    """`call`, after it has decoded a small image. Raises `Unavailable` where its library was built without nvJPEG."""
    from PIL import Image

    small = io.BytesIO()
    Image.new("RGB", (16, 16)).save(small, "JPEG")
    try:
        call([decode.Encoded(small.getvalue(), 16, 16)])
    except RuntimeError as error:
        reason = printable(str(error).partition("\n")[0])
        raise Unavailable("not-built", f"its JPEG decoder does not work on this device: {reason}") from error
    return call


@variant(CROP, name="tensor-first", library=pillow_library)
def tensor_first(workload: Workload) -> Calling:
    """Pillow and torchvision's functions on one core, one image after the other, and a copy of the batch."""
    return waited_for(workload, functools.partial(_stacked, crop.tensor_first(workload)))


@variant(CROP, name="region-exact", library=region.library_name, **JPEG_ONLY)
def region_exact(workload: Workload) -> Calling:
    """`pipebench.decode_and_crop`'s decoder on one core, one image after the other, and a copy of the batch."""
    return waited_for(workload, lambda device: _stacked(crop.region_exact(workload), device))


def _stacked(cropper: Callable[[Any], Any], device: str) -> Callable[[Sequence[Any]], Any]:
    import torch

    return lambda images: torch.stack([cropper(one) for one in images]).to(device)


@variant(CROP, name="torchcodec", library=library("torchcodec"), extra="torchcodec", **JPEG_ONLY)
def torchcodec_crop(workload: Workload) -> Calling:
    """torchcodec decodes the batch on the device whole; torchvision's v2 functions crop each image there."""
    return waited_for(workload, lambda device: cut_there(_torchcodec(device)))


def cut_there(decoder: Callable[[Sequence[Any]], Any]) -> Callable[[Sequence[Any]], Any]:
    """What decodes images whole as 3 × height × width, and then crops and resizes them where they are."""
    import torch
    from torchvision.transforms.v2 import functional

    cut = crop.cut_tensor(functional)
    return lambda images: torch.stack([cut(made, one) for made, one in zip(decoder(images), images, strict=True)])
