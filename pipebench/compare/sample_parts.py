"""What a user's samples and batches are made of: which entry is the image, and how many samples a batch holds."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Mapping, Sized
from typing import Any

from pipebench.task import Unavailable
from pipebench.units import printable

CHANNELS = (1, 3, 4)
TO_NAME = 'pipebench.toml: [sample] image = "name"'


def image_of(sample: Any, named: str | int | None = None) -> Any:
    """The image in a sample: the entry that `pipebench.toml` names, else the one entry that is an image.

    A sample without entries is the image itself. In a plain tuple or list without exactly one image, it is the first
    entry, as in (input, target). Raises `Unavailable` where it cannot be told which entry is the image.
    """
    parts = _entries(sample)
    if named is not None:
        return _named(sample, parts, named)
    if parts is None:
        return sample
    images = [key for key, value in parts.items() if _is_image(value)]
    if len(images) == 1:
        return parts[images[0]]
    if type(sample) in (tuple, list) and parts:
        return parts[0]
    found = f"several images ({_listed(images)})" if images else f"no image among {_listed(parts)}"
    raise Unavailable("not-built", printable(f"a sample has {found}; name one in {TO_NAME}"))


def _listed(keys: Iterable[Any]) -> str:
    return ", ".join(map(str, keys))


def _named(sample: Any, parts: dict[Any, Any] | None, named: str | int) -> Any:
    if parts is not None and named in parts:
        return parts[named]
    if isinstance(named, int) and isinstance(sample, tuple | list) and -len(sample) <= named < len(sample):
        return sample[named]
    raise Unavailable("not-built", printable(f"a sample of this commit has no entry {named!r}, which {TO_NAME} names"))


def _entries(sample: Any) -> dict[Any, Any] | None:
    """The entries of a sample by key, field or position; None if it has no entries."""
    if isinstance(sample, Mapping):
        return dict(sample)
    if isinstance(sample, tuple) and hasattr(sample, "_fields"):
        return dict(zip(sample._fields, sample, strict=True))
    if dataclasses.is_dataclass(sample) and not isinstance(sample, type):
        return {one.name: getattr(sample, one.name) for one in dataclasses.fields(sample)}
    return dict(enumerate(sample)) if isinstance(sample, tuple | list) else None


def _is_image(value: Any) -> bool:
    """Whether a value is an image: of Pillow, an array of H×W×C, a tensor of C×H×W, or torchvision's own type."""
    return _is(value, "PIL.Image", "Image") or _is_image_tensor(value) or _is_image_array(value)


def _is_image_array(value: Any) -> bool:
    return _is(value, "numpy", "ndarray") and value.ndim == 3 and value.shape[-1] in CHANNELS


def _is_image_tensor(value: Any) -> bool:
    if not _is(value, "torch", "Tensor"):
        return False
    if any(_is(value, "torchvision.tv_tensors", name) for name in ("Mask", "BoundingBoxes", "Video", "KeyPoints")):
        return False
    return value.ndim == 3 and value.shape[0] in CHANNELS


def _is(value: Any, module: str, name: str) -> bool:
    """Whether a value has a type of a library. A library that nobody has imported made no value."""
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(value, kind)


def batch_length(batch: Any, expected: int | None = None) -> int:
    """How many samples a batch holds. `expected` is the batch size, which decides where its shape leaves two answers.

    A batch is a tensor, a list of samples, or a container of parts that each have as many entries as there are samples.
    A part may be a list, as a collate function makes of tensors that differ in shape.
    """
    if expected is None and _is_image(batch):
        return 1
    parts = _entries(batch)
    if not parts:
        return len(batch) if isinstance(batch, Sized) and not isinstance(batch, str | bytes) else 1
    sizes = [_size(one) for one in parts.values()]
    lengths = {size for size in sizes if size is not None}
    if expected is None and None in sizes:
        return 1  # a number, a text, an image: this is one sample
    if expected in lengths or (len(parts) == expected and isinstance(batch, list)):
        return int(expected or 0)
    if isinstance(batch, list) and all(isinstance(one, tuple | Mapping) for one in batch):
        return len(batch)
    return lengths.pop() if len(lengths) == 1 else batch_length(next(iter(parts.values())))


def _size(part: Any) -> int | None:
    """The number of entries of a part; None if it has none: a number, a text, a tensor without dimensions."""
    if isinstance(part, str | bytes) or getattr(part, "ndim", 1) == 0 or not isinstance(part, Sized):
        return None
    inner = _entries(part) if isinstance(part, Mapping) else None
    if not inner:
        return len(part)
    sizes = {_size(one) for one in inner.values()}
    return sizes.pop() if len(sizes) == 1 else None
