"""Transform: a batch of crops on the CPU, sample by sample or all at once.

Random choices (masks, flips) are drawn before timing from the workload's seed, so that all variants do the same work.

Docstrings of the fastest variants say what their time consists of. The shares are from one shared machine, and their
parts were timed alone, so they need not add up to 100 %. The ceiling is one pass over the bytes in and out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipebench.errors import SampleError
from pipebench.stages import agreement
from pipebench.stages.crop import crops
from pipebench.task import Task, Variant, Work, Workload, task, variant

MASKED = 0.25  # share of pixels masked, then dilated (Rand, PyTorch Model Performance Analysis and Optimization, 4)
# RGB to YCbCr, ITU-T T.871 section 7, as Rand's pipeline rounds it
YUV = ((0.299, 0.587, 0.114), (-0.16874, -0.33126, 0.5), (0.5, -0.41869, -0.08131))
OFFSET = (0.0, 128.0, 128.0)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # ImageNet
LEVEL = 1 / 255
FLOAT = 1e-5  # how far normalised values may be apart


@dataclass(frozen=True)
class Batch:
    """Crops as uint8 tensors 3×S×S, and what was drawn for each: a mask S×S of bools, and whether it is flipped.

    `transform/dilate` has masks and no crops.
    """

    crops: tuple[Any, ...]
    masks: tuple[Any, ...] = ()
    flips: tuple[bool, ...] = ()


def _rng(workload: Workload) -> np.random.Generator:
    return np.random.default_rng(workload.seed)


def _for_dilate(workload: Workload, keys: Sequence[str]) -> list[Batch]:
    found, rng = crops(workload, "crop/fixed-256"), _rng(workload)
    return [Batch((), tuple(rng.random(one.shape[1:], np.float32) < MASKED for one in found))]


def _for_mask(workload: Workload, keys: Sequence[str]) -> list[Batch]:
    (drawn,) = _for_dilate(workload, keys)
    return [Batch(crops(workload, "crop/fixed-256"), tuple(conv(workload)(drawn)))]


@functools.lru_cache(maxsize=2)
def masked(workload: Workload) -> tuple[Any, ...]:
    """The reference output of `transform/mask`."""
    return tuple(masked_fill(workload)(_for_mask(workload, ())[0]))


def _for_yuv(workload: Workload, keys: Sequence[str]) -> list[Batch]:
    return [Batch(masked(workload))]


def _for_normalise(workload: Workload, keys: Sequence[str]) -> list[Batch]:
    found, rng = crops(workload, "crop/resized-224"), _rng(workload)
    return [Batch(found, flips=tuple(bool(flip) for flip in rng.random(len(found)) < 0.5))]


@functools.lru_cache(maxsize=2)
def normalised(workload: Workload) -> Any:
    """The reference output of `transform/flip-normalise`, N×3×224×224."""
    return v1_sample(workload)(_for_normalise(workload, ())[0])


def batch_groups(workload: Workload, source: str = "crop/fixed-256") -> Sequence[tuple[str, ...]]:
    """One group with the keys of a whole batch; no group if no crop could be made."""
    return [tuple(f"batch[{index}]" for index in range(workload.batch_size))] if crops(workload, source) else []


def _check(output: Any, given: Batch) -> None:
    wanted = (len(given.crops), *given.crops[0].shape)
    if isinstance(output, list):
        shapes = {(tuple(one.shape), str(one.dtype)) for one in output}
        if len(output) != wanted[0] or shapes != {(wanted[1:], "torch.uint8")}:
            raise SampleError("contract", f"it is {len(output)} of {shapes}, not {wanted}")
    elif tuple(output.shape) != wanted:
        raise SampleError("contract", f"it is {tuple(output.shape)}, not {wanted}")


def _agree(output: Any, expected: Any, variant: Variant) -> None:
    """Masks must be equal, colours equal within one level, normalised values equal within float rounding.

    Each is a maximum. OpenCV rounds luma before it takes chroma from it, and then chroma: 0.5 × 0.564 + 0.5 levels. A
    few float32 operations on values below 3 are within 1e-6.
    """
    for ours, theirs in zip(output, expected, strict=True):
        if str(ours.dtype) == str(theirs.dtype) == "torch.uint8":
            agreement.largest(ours.numpy(), theirs.numpy(), 0.0)
        elif str(ours.dtype) == "torch.uint8":
            agreement.largest(ours.numpy(), theirs.numpy() / LEVEL, 1.0)
        else:
            agreement.largest(ours.numpy(), theirs.numpy(), FLOAT)


def _work(given: Batch, output: Any) -> Work:
    needed = (*given.crops, *given.masks)
    return Work(len(output), sum(int(one.nbytes) for one in needed), sum(int(one.nbytes) for one in output))


def _check_masks(output: Any, given: Batch) -> None:
    wanted = [(mask.shape, np.dtype(bool)) for mask in given.masks]
    if (found := [(one.shape, one.dtype) for one in output]) != wanted:
        raise SampleError("contract", f"it is {len(output)} of {set(found)}, not {len(wanted)} of {set(wanted)}")


def _agree_masks(output: Any, expected: Any, variant: Variant) -> None:
    for ours, theirs in zip(output, expected, strict=True):
        agreement.largest(ours, theirs, 0.0)


def _few(workload: Workload) -> Workload:
    """At most 16 crops: a transform of one crop costs milliseconds and does not depend on its neighbours."""
    return replace(workload, batch_size=min(16, workload.batch_size))


for _id, _summary, _inputs, _source, _checked in (
    ("transform/dilate", "a random mask grown by a pixel", _for_dilate, "crop/fixed-256", (_check_masks, _agree_masks)),
    ("transform/mask", "blank what a dilated mask covers", _for_mask, "crop/fixed-256", (_check, _agree)),
    ("transform/yuv", "RGB to YUV, scaled to 0–1, as one batch", _for_yuv, "crop/fixed-256", (_check, _agree)),
    (
        "transform/flip-normalise",
        "random flip, float, normalise, as one batch",
        _for_normalise,
        "crop/resized-224",
        (_check, _agree),
    ),
):
    task(
        Task(
            id=_id,
            summary=_summary,
            groups=functools.partial(batch_groups, source=_source),
            inputs=_inputs,
            check=_checked[0],
            agree=_checked[1],
            work=_work,
            per_call=lambda workload: workload.batch_size,
            adapt=_few,
        )
    )

Transforming = Callable[[Batch], Any]


@variant("transform/dilate", name="conv", extra="scipy")
def conv(workload: Workload) -> Transforming:
    """Dilation by a 2-D convolution from SciPy."""
    from scipy.signal import convolve2d

    cross = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]], np.float32)
    return lambda given: [convolve2d(mask, cross, mode="same") > 0 for mask in given.masks]


def dilated(mask: Any) -> Any:
    wide = mask.copy()
    wide[1:] |= mask[:-1]
    wide[:-1] |= mask[1:]
    wide[:, 1:] |= mask[:, :-1]
    wide[:, :-1] |= mask[:, 1:]
    return wide


@variant("transform/dilate", name="bool-or")
def bool_or(workload: Workload) -> Transforming:
    """Dilation by ORs of the shifted mask."""
    return lambda given: [dilated(mask) for mask in given.masks]


def _cv_dilate(workload: Workload) -> Transforming:
    """Dilation by `cv2.dilate`.

    87 % of its time is OpenCV's dilation; the rest is new memory and the call.
    """
    import cv2

    cross = cv2.getStructuringElement(cv2.MORPH_CROSS, (3, 3))
    return lambda given: [cv2.dilate(mask.view(np.uint8), cross).view(bool) for mask in given.masks]


variant("transform/dilate", name="cv-dilate", extra="opencv")(_cv_dilate)
variant("transform/dilate", name="cv-dilate-threads-0", extra="opencv", opencv_threads=0)(_cv_dilate)
variant("transform/dilate", name="cv-dilate-threads-default", extra="opencv", opencv_threads=None)(_cv_dilate)


def _blanking(blank: Callable[[Any, Any], Any]) -> Transforming:
    """Makes a list of new crops by `blank`, from each crop (a tensor) and its mask (an array of bools)."""
    return lambda given: [blank(crop, mask) for crop, mask in zip(given.crops, given.masks, strict=True)]


@variant("transform/mask", name="masked-fill")
def masked_fill(workload: Workload) -> Transforming:
    """`crop.masked_fill(mask, 0)`: decides at every byte.

    The decisions are its cost: with a mask of one value, it takes a quarter of the time, and just as long with a mask
    of the crop's own shape.
    """
    import torch

    return _blanking(lambda crop, mask: crop.masked_fill(torch.from_numpy(mask), 0))


@variant("transform/mask", name="where")
def where(workload: Workload) -> Transforming:
    """`torch.where(mask, 0, crop)`: decides at every byte, too."""
    import torch

    return _blanking(lambda crop, mask: torch.where(torch.from_numpy(mask), 0, crop))


@variant("transform/mask", name="multiply")
def multiply(workload: Workload) -> Transforming:
    """`crop * (mask == 0)`: arithmetic instead of decisions."""
    import torch

    return _blanking(lambda crop, mask: crop * (torch.from_numpy(mask) == 0))


def _and_bytes(crop: Any, mask: Any) -> Any:
    return crop.numpy() & (mask.view(np.uint8) - np.uint8(1))  # True is 1 and becomes 0, False becomes 255


@variant("transform/mask", name="numpy-and")
def numpy_and(workload: Workload) -> Transforming:
    """The crop's bytes AND 255 or 0, in NumPy: bytes only, nothing is converted.

    74 % of its time is the AND, 23 % the turning of True and False into 0 and 255.
    """
    import torch

    return _blanking(lambda crop, mask: torch.from_numpy(_and_bytes(crop, mask)))


@variant("transform/mask", name="opencv-and", extra="opencv")
def opencv_and(workload: Workload) -> Transforming:
    """`cv2.bitwise_and` with a mask, for each channel: OpenCV wants its channels interleaved."""
    import cv2
    import torch

    def blank(crop: Any, mask: Any) -> Any:
        kept, made = np.equal(mask, False).view(np.uint8), np.zeros(crop.shape, np.uint8)
        for channel, into in zip(crop.numpy(), made, strict=True):
            cv2.bitwise_and(channel, channel, dst=into, mask=kept)
        return torch.from_numpy(made)

    return _blanking(blank)


@variant("transform/yuv", name="per-sample")
def per_sample(workload: Workload) -> Transforming:
    """A 3×3 matrix product, an offset and a scale for each sample, then a stack."""
    import torch

    matrix, offset = torch.tensor(YUV), torch.tensor(OFFSET)[:, None]

    def transform(given: Batch) -> Any:
        made = [((matrix @ crop.view(3, -1).float() + offset) * LEVEL).view(crop.shape) for crop in given.crops]
        return torch.stack(made)

    return transform


@variant("transform/yuv", name="batch-matmul")
def batch_matmul(workload: Workload) -> Transforming:
    """Stack the bytes, then one matrix product for the whole batch, with the scale folded into it.

    31 % of its time is the product, 25 % the conversion to float, 20 % the offset, 9 % the stack: each is a pass over
    memory.
    """
    import torch

    matrix, offset = torch.tensor(YUV) * LEVEL, torch.tensor(OFFSET)[:, None] * LEVEL

    def transform(given: Batch) -> Any:
        batch = torch.stack(given.crops)
        return torch.matmul(matrix, batch.flatten(2).float()).add_(offset).view(batch.shape)

    return transform


@variant("transform/yuv", name="into-batch")
def into_batch(workload: Workload) -> Transforming:
    """Each sample's product, with offset and scale folded into it, straight into its place in the batch.

    About 75 % of its time is the product, 25 % the conversion to float.
    """
    import torch

    matrix, offset = torch.tensor(YUV) * LEVEL, torch.tensor(OFFSET)[:, None] * LEVEL

    def transform(given: Batch) -> Any:
        batch = torch.empty(len(given.crops), *given.crops[0].shape)
        for image, crop in zip(batch, given.crops, strict=True):
            torch.addmm(offset, matrix, crop.view(3, -1).float(), out=image.view(3, -1))
        return batch

    return transform


def _cv_uint8(workload: Workload) -> Transforming:
    """`cv2.cvtColor` on each sample's bytes, then a stack of bytes.

    27 % of its time is the conversion; 46 % is spent on interleaving the channels before it and separating them after.
    """
    import cv2
    import torch

    def transform(given: Batch) -> Any:
        batch = np.empty((len(given.crops), *given.crops[0].shape), np.uint8)
        for index, crop in enumerate(given.crops):
            luma, red, blue = cv2.split(cv2.cvtColor(cv2.merge(list(crop.numpy())), cv2.COLOR_RGB2YCrCb))
            batch[index, 0], batch[index, 1], batch[index, 2] = luma, blue, red
        return torch.from_numpy(batch)

    return transform


_BYTES = {"extra": "opencv", "gives_up": "the float output: it stays uint8 and the scale to 0–1 is left to the device"}
variant("transform/yuv", name="cv-uint8", **_BYTES)(_cv_uint8)
variant("transform/yuv", name="cv-uint8-threads-0", opencv_threads=0, **_BYTES)(_cv_uint8)
variant("transform/yuv", name="cv-uint8-threads-default", opencv_threads=None, **_BYTES)(_cv_uint8)


@variant("transform/flip-normalise", name="v1-sample")
def v1_sample(workload: Workload) -> Transforming:
    """torchvision v1 on each sample: flip, to float, normalise; then a stack."""
    import torch
    from torchvision.transforms import functional

    def one(crop: Any, flip: bool) -> Any:
        image = functional.hflip(crop) if flip else crop
        return functional.normalize(functional.convert_image_dtype(image, torch.float32), MEAN, STD)

    return lambda given: torch.stack([one(*pair) for pair in zip(given.crops, given.flips, strict=True)])


@variant("transform/flip-normalise", name="v2-sample")
def v2_sample(workload: Workload) -> Transforming:
    """torchvision v2 on each sample: flip, to float, normalise; then a stack."""
    import torch
    from torchvision.transforms.v2 import functional

    def one(crop: Any, flip: bool) -> Any:
        image = functional.horizontal_flip(crop) if flip else crop
        return functional.normalize(functional.to_dtype(image, torch.float32, scale=True), list(MEAN), list(STD))

    return lambda given: torch.stack([one(*pair) for pair in zip(given.crops, given.flips, strict=True)])


@variant("transform/flip-normalise", name="v2-batch")
def v2_batch(workload: Workload) -> Transforming:
    """Flip and stack bytes, then torchvision v2's conversion and normalisation once for the batch.

    47 % of its time is the normalisation, 37 % the conversion to float, 11 % flips and stack.
    """
    import torch
    from torchvision.transforms.v2 import functional

    def transform(given: Batch) -> Any:
        pairs = zip(given.crops, given.flips, strict=True)
        batch = torch.stack([functional.horizontal_flip(crop) if flip else crop for crop, flip in pairs])
        return functional.normalize(functional.to_dtype(batch, torch.float32, scale=True), list(MEAN), list(STD))

    return transform


@variant("transform/flip-normalise", name="into-batch")
def normalised_into_batch(workload: Workload) -> Transforming:
    """Bytes less the mean, straight into their place in the batch, times the scale there: two passes for each sample.

    About 64 % of its time is the subtraction, which makes floats of bytes, 28 % the scale, and 8 % the flips.
    """
    import torch

    mean, scale = (torch.tensor(one)[:, None, None] for one in ([m / LEVEL for m in MEAN], [LEVEL / s for s in STD]))

    def transform(given: Batch) -> Any:
        batch = torch.empty(len(given.crops), *given.crops[0].shape)
        for image, crop, flip in zip(batch, given.crops, given.flips, strict=True):
            torch.sub(crop.flip(-1) if flip else crop, mean, out=image).mul_(scale)
        return batch

    return transform
