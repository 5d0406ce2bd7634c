"""A collate function that decodes: every image straight into its slot of a shared batch that is used again."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pipebench.native.resized import EncodedCrop, decode_batch
from pipebench.ring import RingCollate, new_memory

if TYPE_CHECKING:
    import torch

    from pipebench.ring import Filled

_SIDE_LIMIT = 65_500  # pixels, that of JPEG files


class BatchInto(RingCollate):
    """`RingCollate` that decodes crops itself: `DataLoader(collate_fn=BatchInto(224))`.

    The dataset returns an `EncodedCrop` in place of each image: the bytes, a box and whether it is mirrored. The crops
    of a batch become one uint8 tensor of shape (batch, 3, height, width), RGB. They are decoded, resized with
    antialiasing and mirrored into their slots in one call into C, without the GIL, and not copied again. Everything
    else in the samples, such as labels, is collated by `RingCollate`, which also says when memory is used again.

    `size` is that of the images: height and width, or one number for both. `exact` and the pixels are those of
    `RandomResizedCropFromBytes`, whose method `draw` makes an `EncodedCrop` with a random box.

    A batch raises as `decode_and_crop` at the first crop that cannot be used. The error names its index in the batch.
    """

    def __init__(self, size: int | Sequence[int], *, exact: bool = False, prefetch_factor: int = 2) -> None:
        super().__init__(prefetch_factor)
        self.size = _height_and_width(size)
        self.exact = exact

    def _ways(self, filled: Filled) -> dict[Any, Callable[..., Any]]:
        import torch

        def images(batch: list[EncodedCrop], *, collate_fn_map: Any = None) -> torch.Tensor:
            shape = (len(batch), 3, *self.size)
            fill = functools.partial(decode_batch, batch, exact=self.exact)
            made: torch.Tensor | None = filled(torch.uint8, shape, fill)
            if made is None:
                made = new_memory(torch.uint8, shape)
                fill(made)
            return made

        return {**super()._ways(filled), EncodedCrop: images}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(size={self.size}, exact={self.exact}, prefetch_factor={self.prefetch_factor})"


def _height_and_width(size: int | Sequence[int]) -> tuple[int, int]:
    sides = [operator.index(side) for side in ((size, size) if isinstance(size, int) else size)]
    if len(sides) != 2 or not 1 <= min(sides) <= max(sides) <= _SIDE_LIMIT:
        raise ValueError(f"size must be one number or height and width, from 1 to {_SIDE_LIMIT}, not {size!r}")
    return sides[0], sides[1]
