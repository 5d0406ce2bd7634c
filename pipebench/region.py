"""The public name of `pipebench.native.region`. Importing this module after torch registers the torch operator."""

from pipebench.native.region import (
    crop_stream,
    decode_and_crop,
    image_size,
    library_name,
    register_beside_torch,
    scaled_size,
    torch_operator,
)
from pipebench.native.transforms import RandomCropFromBytes, RandomResizedCropFromBytes

__all__ = [
    "RandomCropFromBytes",
    "RandomResizedCropFromBytes",
    "crop_stream",
    "decode_and_crop",
    "image_size",
    "library_name",
    "scaled_size",
    "torch_operator",
]

register_beside_torch()
