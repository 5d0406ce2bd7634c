"""torchvision's random crops on the encoded bytes of a JPEG, on top of `region.decode_and_crop`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from pipebench.native.region import Box, decode_and_fill, image_size
from pipebench.native.resized import EncodedCrop, decode_and_resize

if TYPE_CHECKING:
    import torch
    from typing_extensions import Buffer


class RandomCropFromBytes:
    """torchvision's `RandomCrop` on an encoded JPEG. It draws the same boxes for the same torch seed.

    The arguments are torchvision's. Only the padding mode `constant` is supported (else `ValueError`), because the
    other modes need pixels that are never decoded. `api` chooses which of torchvision's two classes to reproduce: they
    draw different numbers where one side of the image equals that of the crop.

    A call with a bytes-like JPEG returns a uint8 tensor of shape (3, height, width), RGB, channels last in memory as
    `PILToTensor` makes it. Raises as `decode_and_crop`, and `ValueError` for an image smaller than the crop.
    """

    def __init__(
        self,
        size: int | Sequence[int],
        padding: int | Sequence[int] | None = None,
        pad_if_needed: bool = False,
        fill: float | Sequence[float] = 0,
        padding_mode: str = "constant",
        *,
        api: Literal["v1", "v2"] = "v2",
    ) -> None:
        from torchvision import transforms
        from torchvision.transforms import v2

        if padding_mode != "constant":
            raise ValueError(f"padding_mode {padding_mode!r} needs pixels that are not decoded: use 'constant'")
        if isinstance(fill, dict):
            raise ValueError("fill must be a number or one for each channel")
        if api not in ("v1", "v2"):
            raise ValueError(f"api must be 'v1' or 'v2', not {api!r}")
        self._reference = v2.RandomCrop(size) if api == "v2" else transforms.RandomCrop(size)
        self.size: tuple[int, int] = tuple(self._reference.size)
        self.padding = _four_sides(padding)
        self.pad_if_needed = pad_if_needed
        self.fill = fill
        self.api = api

    def __call__(self, data: Buffer) -> torch.Tensor:
        width, height = image_size(data)
        left, top, right, bottom = self.padding
        if self.pad_if_needed:
            missing = (max(0, self.size[0] - height - top - bottom), max(0, self.size[1] - width - left - right))
            top, bottom, left, right = top + missing[0], bottom + missing[0], left + missing[1], right + missing[1]
        y, x = self._draw(height + top + bottom, width + left + right)
        box = (x - left, y - top, self.size[1], self.size[0])
        return decode_and_fill(data, box, (width, height), self.fill).permute(2, 0, 1)

    def _draw(self, height: int, width: int) -> tuple[int, int]:
        """The top and left edge of the next crop of a padded image of that size."""
        if self.api == "v1":
            y, x, _, _ = self._reference.get_params(_blank(height, width), self.size)
            return y, x
        drawn = self._reference.make_params([_blank(height, width)])
        return drawn["top"], drawn["left"]

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(size={self.size}, padding={self.padding}, pad_if_needed={self.pad_if_needed}, "
            f"fill={self.fill}, api={self.api!r})"
        )


class RandomResizedCropFromBytes:
    """torchvision's `RandomResizedCrop` on an encoded JPEG: the same boxes for the same torch seed (v1 and v2).

    `decode_and_resize` decodes and resizes the box, with `exact`; its docstring says how the result differs without.

    The arguments are torchvision's. `antialias` must be True (else `ValueError`), because a reduced decode is
    antialiased. `flip` is the probability that the result is mirrored, as by torchvision's `RandomHorizontalFlip(flip)`
    after it. A call with a bytes-like JPEG returns a uint8 tensor of shape (3, height, width), RGB; with `out`, a
    contiguous tensor of that shape, it is made there. Raises as `decode_and_crop`.
    """

    def __init__(
        self,
        size: int | Sequence[int],
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3 / 4, 4 / 3),
        interpolation: Any = "bilinear",
        antialias: bool = True,
        *,
        exact: bool = False,
        flip: float = 0.0,
    ) -> None:
        from torchvision.transforms import v2

        if antialias is not True:
            raise ValueError("antialias must be True: a picture decoded at a smaller scale is antialiased")
        self._reference = v2.RandomResizedCrop(size, scale, ratio, interpolation, antialias=True)
        self.size: tuple[int, int] = tuple(self._reference.size)
        self.scale = scale
        self.ratio = ratio
        self.interpolation = interpolation
        self.exact = exact
        self.flip = flip

    def __call__(self, data: Buffer, out: torch.Tensor | None = None) -> torch.Tensor:
        drawn = self.draw(data)
        return decode_and_resize(
            data, drawn.box, self.size, self.interpolation, exact=self.exact, flip=drawn.flip, out=out
        )  # fmt: skip

    def draw(self, data: Buffer) -> EncodedCrop:
        """What a call would decode, not decoded yet: for a dataset whose batches `BatchInto` makes.

        It draws the same random numbers as a call. Only the header of `data` is read.
        """
        import torch

        width, height = image_size(data)
        drawn = self._reference.make_params([_blank(height, width)])
        box = (drawn["left"], drawn["top"], drawn["width"], drawn["height"])
        return EncodedCrop(data, box, self.flip > 0 and bool(torch.rand(1) < self.flip))

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(size={self.size}, scale={self.scale}, ratio={self.ratio}, "
            f"interpolation={self.interpolation}, exact={self.exact}, flip={self.flip})"
        )


def _blank(height: int, width: int) -> torch.Tensor:
    """A tensor with the shape of an image and no memory. torchvision needs only the shape to draw a box."""
    import torch

    return torch.empty(1, dtype=torch.uint8).expand(3, height, width)


def _four_sides(padding: int | Sequence[int] | None) -> Box:
    """Left, top, right and bottom from torchvision's one, two (left and right, top and bottom) or four numbers."""
    sides = [padding or 0] if padding is None or isinstance(padding, int) else list(padding)
    if len(sides) not in (1, 2, 4):
        raise ValueError(f"padding must be one, two or four numbers, not {len(sides)}")
    left, top, right, bottom = sides * (4 // len(sides))
    return left, top, right, bottom
