"""The public name of `pipebench.native.region`. Importing this module after torch registers the torch operator."""

from pipebench.native.region import (
    RandomCropFromBytes,
    RandomResizedCropFromBytes,
    decode_and_crop,
    image_size,
    library_name,
    register_beside_torch,
    scaled_size,
    torch_operator,
)

__all__ = [
    "RandomCropFromBytes",
    "RandomResizedCropFromBytes",
    "decode_and_crop",
    "image_size",
    "library_name",
    "scaled_size",
    "torch_operator",
]

register_beside_torch()
