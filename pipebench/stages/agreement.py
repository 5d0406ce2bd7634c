"""How far the images of two variants may be apart: one bound on the mean, and one on every place of the image.

A mean alone lets a damaged block through, because one block is a thousandth of a photograph. A maximum alone must allow
for the finest detail, where two honest decoders differ most. So both are checked, and the maximum is taken of what
honest decoders share: luma at every pixel, and the mean colour of every block beside the contrast around it.

Images are height × width × 3 arrays in levels of 255. Every check raises `SampleError` of kind `disagrees`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pipebench.errors import SampleError

STRIP = 1 << 20  # values that are compared at a time
SIDE = 8  # pixels of a block of a JPEG
LUMA_WEIGHTS = np.array((0.299, 0.587, 0.114), np.float32)  # ITU-T T.871, section 7

# Maximum, luma. An inverse DCT of IEEE Std 1180-1990 is nowhere more than 1 level from the exact one, so two are within
# 2. RGB is rounded to whole levels, which moves luma by at most 0.5 in each image: 3 in all. How chroma is upsampled
# does not move luma. libjpeg's fast DCT is not of that standard (up to 6.5 on the photographs).
LARGEST_LUMA = 3.0
# Maximum, colour. An error of 2 in luma and in chroma is at most 2 + 1.772 × 2 = 5.5 in a channel (blue, T.871); 0.5 is
# for rounding.
LARGEST_COLOUR = 6.0
# Mean. That standard bounds the mean square error of an inverse DCT by 0.02, so two differ by at most 2 × √0.02 = 0.28
# (root mean square), and by 0.7 as the mean over red, green and blue (factors 1 + 1.402, 1 + 1.058 and 1 + 1.772). The
# rest is for plain instead of smooth chroma upsampling: 0.1 to 1.8 levels on the data sets here, measured. (Strongly
# coloured noise exceeds it.)
EXACT_MEAN = 2.0
# Edges, in pixels, that two ways to sample weigh otherwise (see `blocks`).
UPSAMPLED = 0.5  # smooth chroma upsampling reaches a quarter into the next sample, which is two pixels wide
RESIZED = 0.25  # a bilinear filter passes over an edge in a ramp of one pixel, an area filter at once
MOVED = 0.5  # a box whose edges were moved to whole pixels of a reduced picture
# Mean of resized crops, as means of 4×4 pixels (8×8 for shortcuts): filters differ in the finest detail. Up to 0.4
# levels on the data sets here without a shortcut (OpenCV's area filter) and 1.7 with; 1 for white noise.
RESIZED_MEAN = 3.0


def mean(ours: Any, theirs: Any, most: float) -> None:
    """The mean absolute difference is at most `most`. For arrays of any one shape."""
    found = sum(float(np.abs(a - b).sum(dtype=np.float64)) for _, a, b in _strips(ours, theirs)) / max(1, np.size(ours))
    if not found <= most:
        raise SampleError("disagrees", f"it differs from the reference by {found:.1f} levels on average")


def largest(ours: Any, theirs: Any, most: float) -> None:
    """No value differs by more than `most`. For arrays of any one shape."""
    found = float(np.abs(np.asarray(ours, np.float32) - np.asarray(theirs, np.float32)).max(initial=0))
    if not found <= most:
        raise SampleError("disagrees", f"it differs from the reference by up to {found:.4g}")


def same_pixels(ours: Any, theirs: Any) -> None:
    """Two decodes of one file, by `EXACT_MEAN`, `LARGEST_LUMA` and, for colour, the means of 8×8 pixels."""
    if ours.dtype == theirs.dtype and np.array_equal(ours, theirs):
        return
    mean(ours, theirs, EXACT_MEAN)
    luma(ours, theirs)
    blocks(ours, theirs, SIDE, UPSAMPLED)


def luma(ours: Any, theirs: Any) -> None:
    """Luma differs nowhere by more than `LARGEST_LUMA`.

    A channel at 0 or 255 may stand for a value beyond, so there luma is a bound, and counts only in its own direction.
    """
    worst = max((_worst_luma(*strip) for strip in _strips(ours, theirs)), default=(0.0, 0, 0))
    if not worst[0] <= LARGEST_LUMA + 1e-3:  # float32 sums
        found, row, column = worst
        raise SampleError(
            "disagrees", f"its luma differs from the reference by {found:.0f} levels at column {column}, row {row}"
        )


def _worst_luma(begin: int, ours: Any, theirs: Any) -> tuple[float, int, int]:
    """The largest difference of luma in a strip that begins at the row `begin`, with its row and column."""
    above = ours @ LUMA_WEIGHTS - theirs @ LUMA_WEIGHTS
    too_high = np.where((ours <= 0).any(-1) | (theirs >= 255).any(-1), 0, above)
    too_low = np.where((ours >= 255).any(-1) | (theirs <= 0).any(-1), 0, -above)
    found = np.maximum(too_high, too_low)
    row, column = np.unravel_index(int(found.argmax()), found.shape)
    return float(found[row, column]), begin + int(row), int(column)


def _strips(ours: Any, theirs: Any) -> Iterator[tuple[int, Any, Any]]:
    """Both arrays as float32, some rows at a time, with the first of them: a large image would take gigabytes."""
    ours, theirs = np.atleast_1d(ours), np.atleast_1d(theirs)
    rows = max(1, STRIP * len(ours) // max(1, ours.size))
    for begin in range(0, len(ours) if ours.size else 0, rows):
        end = begin + rows
        yield begin, np.asarray(ours[begin:end], np.float32), np.asarray(theirs[begin:end], np.float32)


def blocks(ours: Any, theirs: Any, side: int, edge: float) -> None:
    """The mean of every `side`×`side` block is within `LARGEST_COLOUR` and a share of the contrast there.

    Such a mean is a window. Where `edge` pixels of its edges are weighed otherwise, it moves by at most
    edge / side × contrast in one dimension, and twice that in two. The contrast is the range of the reference's values
    over the block and its eight neighbours, channel by channel; what lies beyond the image may have any value.

    `ours` may have fewer pixels, by a whole factor; `side` counts pixels of `theirs`. Blocks that are cut off by the
    right and the lower edge are left to the mean.
    """
    factor = round(theirs.shape[0] / ours.shape[0])
    ours_mean, theirs_mean = block_means(ours, side // factor), block_means(theirs, side)
    rows, columns = (min(pair) for pair in zip(ours_mean.shape[:2], theirs_mean.shape[:2], strict=True))
    contrast = _contrast(_in_blocks(theirs, side, np.min), _in_blocks(theirs, side, np.max))
    allowed = LARGEST_COLOUR + 2 * edge / side * contrast[:rows, :columns]
    excess = np.abs(ours_mean[:rows, :columns] - theirs_mean[:rows, :columns]) - allowed
    if excess.size and not float(excess.max()) <= 0:
        row, column, _ = np.unravel_index(int(excess.argmax()), excess.shape)
        found = excess.max() + allowed[row, column].max()
        raise SampleError(
            "disagrees",
            f"a block differs from the reference by {found:.0f} levels at column {column * side}, row {row * side}",
        )


def reduced(image: Any, axis: int, length: int, by: int) -> Any:
    """`image` with `length` pixels along an axis, as a decode at 1/`by` makes them from that image.

    libjpeg rounds up: a pixel is the mean of `by`, and the last, of which a part is beyond the image, is left out. A
    resize rounds down and stretches over the whole: a pixel is between the two next to its place (OpenCV's bilinear).
    """
    whole = image.shape[axis]
    ours = np.moveaxis(np.asarray(image, np.float32), axis, 0)
    if length * by >= whole:
        by = min(by, whole)
        made = ours[: whole // by * by].reshape(whole // by, by, *ours.shape[1:]).mean(1)
    else:
        places = np.clip((np.arange(length) + 0.5) * whole / length - 0.5, 0, whole - 1)
        first = np.minimum(places.astype(int), whole - 2) if whole > 1 else places.astype(int)
        share = (places - first).astype(np.float32).reshape(-1, *(1 for _ in ours.shape[1:]))
        made = ours[first] * (1 - share) + ours[np.minimum(first + 1, whole - 1)] * share
    return np.moveaxis(made, 0, axis)


def _in_blocks(image: Any, side: int, reduce: Callable[..., Any]) -> Any:
    """One value of each whole block: rows × columns × channels. Rows first, which NumPy does several times faster."""
    rows, columns = image.shape[0] // side, image.shape[1] // side
    parts = np.asarray(image)[: rows * side, : columns * side]
    tall = reduce(parts.reshape(rows, side, columns * side, image.shape[2]), 1)
    return reduce(tall.reshape(rows, columns, side, image.shape[2]), 2)


def block_means(image: Any, side: int) -> Any:
    """The mean of each whole block of `side`×`side` pixels."""
    return _in_blocks(image, side, lambda values, axis: values.mean(axis, dtype=np.float32))


def _contrast(low: Any, high: Any) -> Any:
    """The range of values over each block and its neighbours."""
    rows, columns, _ = low.shape
    ring = ((1, 1), (1, 1), (0, 0))
    low, high = np.pad(low, ring), np.pad(high, ring, constant_values=255)
    shifts = [(slice(y, y + rows), slice(x, x + columns)) for y in range(3) for x in range(3)]
    least, greatest = (pick([part[shift] for shift in shifts], 0) for pick, part in ((np.min, low), (np.max, high)))
    return greatest.astype(np.float32) - least
