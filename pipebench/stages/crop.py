"""Crop: from encoded bytes to one training crop as a 3×S×S tensor; it includes the decode.

All variants cut the same box from the same sample. Where a box reaches beyond a small image, the pixels outside are
zero, as in torchvision's crop.
"""

from __future__ import annotations

import functools
import io
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipebench.data.image_header import FORMATS
from pipebench.errors import SampleError
from pipebench.native import packing, region, resized
from pipebench.stages import agreement, read
from pipebench.stages.decode import (
    BY_TORCHVISION,
    Encoded,
    as_tensor,
    encoded,
    library,
    made_for,
    no_draft,
    opencv_decoder,
    opencv_flags,
    opencv_library,
    pillow_library,
    quiet_torchvision,
    rgb,
)
from pipebench.task import Task, Variant, Work, Workload, task, variant

# What OpenCV's resize gives up beside an antialiased bilinear filter (tools/region_difference.py).
FILTER = "exactness: another filter; on photographs 0.2 to 1.0 levels of 255, at most 1.9 in one"


@dataclass(frozen=True)
class Cut(Encoded):
    """An encoded image, the box to cut from it (left, top, width, height in pixels) and the side of the result."""

    box: tuple[int, int, int, int]
    size: int

    @functools.cached_property
    def packed(self) -> bytes:
        """The image as `pipebench pack` copies it: with restart markers, or as it is if it cannot have them."""
        return packing.pack_if_possible(self.data)

    @property
    def resized(self) -> bool:
        return self.box[2:] != (self.size, self.size)

    @property
    def corners(self) -> tuple[int, int, int, int]:
        left, top, width, height = self.box
        return left, top, left + width, top + height


def fixed_box(rng: random.Random, width: int, height: int, size: int) -> tuple[int, int, int, int]:
    """A random square of `size` pixels; it starts at the top left corner where the image is smaller than that."""
    return rng.randint(0, max(0, width - size)), rng.randint(0, max(0, height - size)), size, size


def resized_box(rng: random.Random, width: int, height: int, size: int) -> tuple[int, int, int, int]:
    """A box of 8–100 % of the area and aspect 3:4 to 4:3, drawn as torchvision's RandomResizedCrop draws it."""
    for _ in range(10):
        area = width * height * rng.uniform(0.08, 1.0)
        aspect = math.exp(rng.uniform(math.log(3 / 4), math.log(4 / 3)))
        wide, high = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < wide <= width and 0 < high <= height:
            return rng.randint(0, width - wide), rng.randint(0, height - high), wide, high
    side = min(width, height)
    return (width - side) // 2, (height - side) // 2, side, side


def cuts(
    workload: Workload,
    keys: Sequence[str],
    size: int,
    draw: Callable[[random.Random, int, int, int], tuple[int, int, int, int]],
) -> list[Cut]:
    """The images of these samples with a box each, which depends on the seed and the sample alone."""
    made = []
    for key in keys:
        image = encoded(workload, key)
        box = draw(random.Random(f"{workload.seed} {key}"), image.width, image.height, size)
        made.append(Cut(image.data, image.width, image.height, box, size))
    return made


def check(output: Any, given: Cut) -> None:
    wanted = (3, given.size, given.size)
    if tuple(output.shape) != wanted or str(output.dtype) not in ("torch.uint8", "torch.float32"):
        raise SampleError(
            "contract", f"it is {output.dtype} {tuple(output.shape)}, not a uint8 or float tensor {wanted}"
        )


def agree(output: Any, expected: Any, variant: Variant, exact: bool) -> None:
    ours, theirs = _levels(output), _levels(expected)
    if exact and not variant.gives_up:
        return agreement.same_pixels(ours, theirs)
    moved = variant.gives_up not in (None, FILTER)
    side, edge = (8, agreement.RESIZED + agreement.MOVED) if moved else (4, agreement.RESIZED)
    coarse, expected_coarse = (agreement.block_means(one, side) for one in (ours, theirs))  # what every filter keeps
    agreement.mean(coarse, expected_coarse, agreement.RESIZED_MEAN)
    agreement.blocks(ours, theirs, side, edge)


def _levels(crop: Any) -> Any:
    """A crop as height × width × 3 in levels of 255, whether uint8 or float in 0 to 1."""
    return (crop.numpy() if str(crop.dtype) == "torch.uint8" else crop.numpy() * 255).transpose(1, 2, 0)


def _work(given: Cut, output: Any) -> Work:
    return Work(1, len(given.data), int(output.nbytes))


def _crop_task(name: str, size: int, draw: Callable[..., Any], summary: str) -> Task:
    return task(
        Task(
            id=name,
            summary=summary,
            groups=read.keys,
            inputs=functools.partial(cuts, size=size, draw=draw),
            check=check,
            agree=functools.partial(agree, exact=draw is fixed_box),
            work=_work,
            per_call=lambda workload: 3 if workload.quick else 16,
        )
    )


_TASKS = (
    _crop_task("crop/fixed-256", 256, fixed_box, "encoded bytes to a random 256×256 crop"),
    _crop_task("crop/resized-224", 224, resized_box, "encoded bytes to a random resized 224×224 crop"),
)
TASKS = tuple(one.id for one in _TASKS)
Cropping = Callable[[Cut], Any]
_REGION: dict[str, Any] = {"library": region.library_name, "partial": True, "unfit": made_for("JPEG")}
_APART = "exactness: on photographs 0.5 to 0.8 levels of 255, at most 1.9 in one; up to 12 on noise and fine patterns"


def cut_tensor(functional: Any) -> Callable[[Any, Cut], Any]:
    """A function that crops a 3×H×W tensor, and resizes it if asked, with torchvision's v1 or v2 functions."""
    bilinear = functional.InterpolationMode.BILINEAR

    def cut(image: Any, given: Cut) -> Any:
        left, top, width, height = given.box
        if not given.resized:
            return functional.crop(image, top, left, height, width).contiguous()
        size = [given.size, given.size]
        return functional.resized_crop(image, top, left, height, width, size, bilinear, antialias=True).contiguous()

    return cut


@variant(*TASKS, name="tensor-first", library=pillow_library)
def tensor_first(workload: Workload) -> Cropping:
    """Pillow, `pil_to_tensor` of the whole image, then the crop: the usual order."""
    from PIL import Image
    from torchvision.transforms import functional

    cut = cut_tensor(functional)
    return lambda given: cut(functional.pil_to_tensor(rgb(Image.open(io.BytesIO(given.data), formats=FORMATS))), given)


@variant(*TASKS, name="float-tensor-first", library=pillow_library)
def float_tensor_first(workload: Workload) -> Cropping:
    """Pillow, `to_tensor` (float, 0 to 1) of the whole image, then the crop: four times the bytes."""
    from PIL import Image
    from torchvision.transforms import functional

    cut = cut_tensor(functional)
    return lambda given: cut(functional.to_tensor(rgb(Image.open(io.BytesIO(given.data), formats=FORMATS))), given)


@variant(*TASKS, name="pil-crop", library=pillow_library)
def pil_crop(workload: Workload) -> Cropping:
    """The crop (and resize) on the Pillow image, before it becomes a tensor."""
    from PIL import Image
    from torchvision.transforms.functional import pil_to_tensor

    def crop(given: Cut) -> Any:
        image = rgb(Image.open(io.BytesIO(given.data), formats=FORMATS))
        if not given.resized:
            return pil_to_tensor(image.crop(given.corners)).contiguous()
        size = (given.size, given.size)
        return pil_to_tensor(image.resize(size, Image.Resampling.BILINEAR, box=given.corners)).contiguous()

    return crop


@variant(
    *TASKS,
    name="draft-crop",
    library=pillow_library,
    gives_up="resolution: half or less",
    unfit=no_draft,
)
def draft_crop(workload: Workload) -> Cropping:
    """Pillow's `draft` mode: the scale nearest above the target (half for a fixed crop), then crop and resize."""
    from PIL import Image
    from torchvision.transforms.functional import pil_to_tensor

    def crop(given: Cut) -> Any:
        image = Image.open(io.BytesIO(given.data), formats=FORMATS)
        wanted = max(1, min(given.box[2:]) // given.size) if given.resized else 2
        image.draft("RGB", (max(1, given.width // wanted), max(1, given.height // wanted)))
        image = rgb(image)
        scale = -(-given.width // image.width)  # libjpeg rounds sizes up, so their quotient is not the scale
        left, top, right, bottom = given.corners
        size = (given.size, given.size)
        if right <= given.width and bottom <= given.height:
            box = (left / scale, top / scale, min(right / scale, image.width), min(bottom / scale, image.height))
            return pil_to_tensor(image.resize(size, Image.Resampling.BILINEAR, box=box)).contiguous()
        part = image.crop((left // scale, top // scale, right // scale, bottom // scale))
        return pil_to_tensor(part.resize(size, Image.Resampling.BILINEAR)).contiguous()

    return crop


def _opencv(workload: Workload) -> Cropping:
    """`cv2.imdecode`, a slice, `cv2.resize` (area when shrinking), then a tensor."""
    import cv2
    import torch

    decode = opencv_decoder(*opencv_flags())

    def crop(given: Cut) -> Any:
        left, top, right, bottom = given.corners
        part: Any = decode(given.data)[top:bottom, left:right]
        if given.resized:
            shrinks = part.shape[0] >= given.size and part.shape[1] >= given.size
            part = cv2.resize(
                part, (given.size, given.size), interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
            )
        elif part.shape[:2] != (given.size, given.size):
            whole = np.zeros((given.size, given.size, 3), np.uint8)
            whole[: part.shape[0], : part.shape[1]] = part
            part = whole
        return torch.from_numpy(np.ascontiguousarray(part.transpose(2, 0, 1)))

    return crop


_OPENCV: dict[str, Any] = {"library": opencv_library, "extra": "opencv", "unfit": made_for()}
variant("crop/fixed-256", name="opencv", **_OPENCV)(_opencv)
variant("crop/resized-224", name="opencv", **_OPENCV, gives_up=FILTER)(_opencv)
for _threads, _label in ((0, "0"), (None, "default")):
    variant(
        "crop/resized-224",
        name=f"opencv-threads-{_label}",
        **_OPENCV,
        opencv_threads=_threads,
        gives_up=FILTER,
    )(_opencv)


@variant(*TASKS, name="torchvision-v2", library=library("torchvision"), unfit=BY_TORCHVISION)
def torchvision_v2(workload: Workload) -> Cropping:
    """`torchvision.io.decode_image`, then the v2 functions on the tensor."""
    from torchvision.transforms.v2 import functional

    io_ = quiet_torchvision()
    mode, cut = io_.ImageReadMode.RGB, cut_tensor(functional)
    return lambda given: cut(io_.decode_image(as_tensor(given.data), mode), given)


@variant("crop/fixed-256", name="region", **_REGION)
def region_crop(workload: Workload) -> Cropping:
    """Only the box is decoded (`pipebench.decode_and_crop`): the same pixels as Pillow's.

    On one machine, 58 % of its time is entropy decoding of what lies above and in the box, 27 % the reconstruction of
    the box, and 10 % the change from interleaved channels to planes.
    """
    return lambda given: _box_of(given.data, given)


def _box_of(data: bytes, given: Cut) -> Any:
    return region.decode_and_fill(data, given.box, (given.width, given.height)).permute(2, 0, 1).contiguous()


@variant(
    "crop/resized-224",
    name="region",
    **_REGION,
    gives_up=_APART,
)
def region_resized(workload: Workload) -> Cropping:
    """Only the box is decoded, at the nearest smaller scale, and resized row by row (`RandomResizedCropFromBytes`).

    Luma and chroma are resized apart, before they become RGB. More than half of its time is entropy decoding.
    """
    return _resizing(exact=False)


@variant("crop/resized-224", name="region-exact", **_REGION)
def region_exact(workload: Workload) -> Cropping:
    """Only the box is decoded, at full scale, and resized row by row: `exact=True`, the pixels of torchvision's v2."""
    return _resizing(exact=True)


@variant("crop/resized-224", name="region-packed", **_REGION, gives_up=_APART)
def region_packed_resized(workload: Workload) -> Cropping:
    """`region` on a packed copy (`pipebench pack`): only the stretches that the box touches are read."""
    return _resizing(exact=False, packed=True)


@variant("crop/fixed-256", name="region-packed", **_REGION)
def region_packed(workload: Workload) -> Cropping:
    """`region` on a packed copy (`pipebench pack`): only the stretches that the box touches are read."""
    return lambda given: _box_of(given.packed, given)


@variant(
    *TASKS,
    name="crop-stream+simplejpeg",
    library=library("simplejpeg"),
    extra="simplejpeg",
    partial=True,
    unfit=made_for("JPEG"),
)
def crop_stream(workload: Workload) -> Cropping:
    """`pipebench.crop_stream` on a packed copy, then simplejpeg: any decoder can read the smaller JPEG."""
    import torch
    from simplejpeg import decode_jpeg
    from torchvision.transforms.v2 import functional

    def crop(given: Cut) -> Any:
        left, top, right, bottom = given.corners
        wide, high = min(right, given.width) - left, min(bottom, given.height) - top
        stream, (x, y, _, _) = region.crop_stream(given.packed, (left, top, wide, high))
        part = torch.from_numpy(decode_jpeg(stream)[y : y + high, x : x + wide]).permute(2, 0, 1)
        if given.resized:
            return functional.resize(part, [given.size, given.size], antialias=True).contiguous()
        return functional.pad(part, [0, 0, given.size - wide, given.size - high]).contiguous()

    return crop


def _resizing(exact: bool, packed: bool = False) -> Cropping:
    def crop(given: Cut) -> Any:
        size = (given.size, given.size)
        data = given.packed if packed else given.data
        return resized.decode_and_resize(data, given.box, size, exact=exact).contiguous()

    return crop


@functools.lru_cache(maxsize=8)
def crops(workload: Workload, task_id: str) -> tuple[Any, ...]:
    """A batch of reference crops of the first good samples, repeated where there are too few; () if none is good."""
    (definition,) = (one for one in _TASKS if one.id == task_id)
    call, made = tensor_first(workload), list[Any]()
    for group in definition.groups(workload):
        if len(made) == workload.batch_size:
            break
        try:
            (given,) = definition.inputs(workload, group)
            output = call(given)
            definition.check(output, given)
        except Exception:  # the crop task has recorded this sample as bad, with its reason
            continue
        made.append(output)
    return tuple(made[index % len(made)] for index in range(workload.batch_size)) if made else ()
