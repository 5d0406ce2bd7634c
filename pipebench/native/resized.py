"""Boxes of JPEGs, decoded and resized straight into a tensor: one, or all of a batch in one call without the GIL.

into.h does the work. For what it costs and how it is checked see docs/decode-and-crop.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pipebench.errors import SampleError
from pipebench.native import passing
from pipebench.native.region import SCALES, Box, checked_box, decode_and_crop, run_jobs

if TYPE_CHECKING:
    import torch
    from typing_extensions import Buffer


class EncodedCrop(NamedTuple):
    """A crop that is not decoded yet: what a dataset returns for `BatchInto`.

    `data` is the encoded JPEG, `box` left, top, width and height in its pixels. With `flip`, the result is mirrored:
    left becomes right.
    """

    data: Buffer | torch.Tensor
    box: Sequence[int]
    flip: bool = False


def decode_and_resize(
    data: Buffer | torch.Tensor,
    box: Sequence[int],
    size: tuple[int, int],
    interpolation: Any = "bilinear",
    *,
    exact: bool = False,
    flip: bool = False,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """A box of a JPEG, resized with antialiasing, as a uint8 tensor of shape (3, height, width), RGB.

    `box` is left, top, width and height in pixels of the full image, `size` height and width of the result. With
    `flip`, it is mirrored. `out` is a contiguous uint8 tensor of the result's shape, such as a slot of a batch: the
    result is made in it, and it is returned. After an error, some of it may have been written. Raises as
    `decode_and_crop`.

    With `exact`, the pixels are those of torchvision's v2 `resized_crop` of the whole picture, bit by bit (by one level
    at most where torchvision converts to float: x86 without AVX2).

    Otherwise, the box is decoded at the smallest scale (1, 1/2, 1/4, 1/8) at which it still has at least `size` pixels,
    and luma and chroma are resized apart, before they become RGB. What differs are frequencies that the reduced decode
    lacks, and edges of colour. For how large it is see docs/figures/decode-and-crop.md.

    An `interpolation` other than bilinear is torchvision's `resize` of what was decoded. Without `exact`, each edge of
    the box then moves to the nearest pixel of the reduced picture, by at most half a pixel of the result.
    """
    import torch

    shape = (3, *_checked_size(size))
    if out is not None:
        passing.check_out(out, shape)
    if not _is_bilinear(interpolation):
        resized = _by_torchvision(data, checked_box(box), size, interpolation, exact)
        resized = resized.flip(-1) if flip else resized
        return resized if out is None else out.copy_(resized)
    result = torch.empty(shape, dtype=torch.uint8) if out is None else out
    at, length, _kept = passing.address(data)
    checked = checked_box(box)
    run_jobs([(at, length, checked, _scale_for(checked, size), flip)], exact, result[None])
    return result


def decode_batch(crops: Sequence[EncodedCrop], out: torch.Tensor, *, exact: bool = False) -> None:
    """Decodes and resizes all `crops` into `out`, a contiguous uint8 tensor of shape (crops, 3, height, width).

    It is one call without the GIL, and what it makes of each crop is that of `decode_and_resize`. Raises as
    `decode_and_crop`, at the first crop that cannot be used; the text names its index. After an error, some of `out`
    may have been written.
    """
    passing.check_out(out, (len(crops), 3, *out.shape[2:]))
    size, jobs, kept = tuple(out.shape[2:]), [], []
    if crops:
        _checked_size(size)
    for index, crop in enumerate(crops):
        try:
            if not isinstance(crop, EncodedCrop):
                raise TypeError(f"it is {type(crop).__name__}, not EncodedCrop")
            at, length, keeper = passing.address(crop.data)
            box = checked_box(crop.box)
        except (SampleError, TypeError, ValueError) as error:
            raise _named(index, error) from error
        kept.append(keeper)
        jobs.append((at, length, box, _scale_for(box, size), bool(crop.flip)))
    run_jobs(jobs, exact, out, named="sample {index} of the batch: ")


def _checked_size(size: Sequence[int]) -> Sequence[int]:
    if min(size) < 1:
        raise ValueError(f"the result's size {tuple(size)} is empty: height and width are 1 or more")
    return size


def _named(index: int, error: Exception) -> Exception:
    text = f"sample {index} of the batch: {error}"
    return SampleError(error.kind, text) if isinstance(error, SampleError) else type(error)(text)


def _is_bilinear(interpolation: Any) -> bool:
    """Whether it is bilinear: as a name, torchvision's mode or Pillow's number."""
    return str(getattr(interpolation, "value", interpolation)) in ("bilinear", "2")


def _by_torchvision(
    data: Buffer | torch.Tensor, box: Box, size: tuple[int, int], interpolation: Any, exact: bool
) -> torch.Tensor:
    from torchvision.transforms.v2 import functional

    scale = 1 if exact else _scale_for(box, size)
    picture = decode_and_crop(data, _aligned(box, scale), scale).permute(2, 0, 1)
    resized: torch.Tensor = functional.resize(picture, list(size), interpolation=interpolation, antialias=True)
    return resized


def _scale_for(box: Box, size: Sequence[int]) -> int:
    """The largest of `SCALES` at which `box` still has `size` (height, width) pixels."""
    return max(one for one in SCALES if one == 1 or (box[2] >= size[1] * one and box[3] >= size[0] * one))


def _aligned(box: Box, scale: int) -> Box:
    """The box of whole reduced pixels that is nearest to `box`. It lies inside the image if `box` does.

    Edges are rounded half up, so that the box never loses a whole reduced pixel between two edges.
    """
    left, top, right, bottom = (
        (2 * edge + scale) // (2 * scale) for edge in (box[0], box[1], box[0] + box[2], box[1] + box[3])
    )
    return left * scale, top * scale, (right - 1 - left) * scale + 1, (bottom - 1 - top) * scale + 1
