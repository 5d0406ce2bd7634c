"""The work that loaders share: decode, random resized crop, flip. And what it has to give.

Loaders that run Python functions run `Work`. So what they differ by is the loader. Boxes come from the system's random
numbers, which need no state: none is copied to a forked worker, and threads share none.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from pipebench.loaders.kind import Batch, Passes, Plan
from pipebench.results.loaders import Filter
from pipebench.stages.crop import resized_box

DOES: Mapping[Filter, str] = {
    "antialiased": "torchvision's decode_jpeg and v2 resized_crop",
    "not antialiased": "simplejpeg and OpenCV's INTER_LINEAR",
}
MODULES = ("torch", "torchvision.transforms.v2", "simplejpeg", "cv2")
_RANDOM = random.SystemRandom()

Pixels = np.ndarray[Any, np.dtype[np.uint8]]
Box = np.ndarray[Any, np.dtype[np.int32]]


def drawn(width: int, height: int, side: int) -> tuple[int, int, int, int, bool]:
    """A random box as torchvision's RandomResizedCrop draws it, and whether to mirror it."""
    return *resized_box(_RANDOM, width, height, side), _RANDOM.random() < 0.5


class Work:
    """From encoded bytes to a crop, uint8 of shape (3, side, side) and contiguous, and its box. It can be pickled."""

    def __init__(self, task: Filter, side: int) -> None:
        self.task = task
        self.side = side

    def __call__(self, data: bytes) -> tuple[Pixels, Box]:
        return (_antialiased if self.task == "antialiased" else _not_antialiased)(data, self.side)

    def of_file(self, path: str) -> tuple[Pixels, Box]:
        return self(Path(path).read_bytes())


def _antialiased(data: bytes, side: int) -> tuple[Pixels, Box]:
    import torch
    from torchvision.io import ImageReadMode, decode_jpeg
    from torchvision.transforms.v2 import functional

    image = decode_jpeg(torch.frombuffer(bytearray(data), dtype=torch.uint8), mode=ImageReadMode.RGB)
    box = drawn(image.shape[2], image.shape[1], side)
    left, top, width, height, mirrored = box
    crop = functional.resized_crop(image, top, left, height, width, [side, side], antialias=True)
    crop = crop.flip(-1) if mirrored else crop
    return crop.contiguous().numpy(), np.array(box, np.int32)


def _not_antialiased(data: bytes, side: int) -> tuple[Pixels, Box]:
    import cv2
    import simplejpeg

    image = simplejpeg.decode_jpeg(data)
    box = drawn(image.shape[1], image.shape[0], side)
    left, top, width, height, mirrored = box
    crop = cv2.resize(image[top : top + height, left : left + width], (side, side), interpolation=cv2.INTER_LINEAR)
    crop = crop[:, ::-1] if mirrored else crop
    return np.ascontiguousarray(crop.transpose(2, 0, 1)), np.array(box, np.int32)


def one_thread() -> None:
    """Lets torch and OpenCV use one thread in this process, as loaders run one image on each core."""
    import cv2
    import torch

    torch.set_num_threads(1)
    cv2.setNumThreads(1)


def shuffled_passes(dataset: Any, plan: Plan, **settings: Any) -> AbstractContextManager[Passes]:
    """Passes of torch's DataLoader over a map-style dataset, which it shuffles; `settings` are further ones of it."""
    import torch
    from torch.utils.data import DataLoader

    return passes_of(
        DataLoader(
            dataset,
            plan.batch_size,
            shuffle=True,
            num_workers=plan.cores,
            persistent_workers=True,
            generator=torch.Generator().manual_seed(plan.seed),
            **settings,
        )
    )


@contextmanager
def passes_of(loader: Any) -> Iterator[Passes]:
    """Passes of a DataLoader, or of one of its kind, whose workers persist until the end."""
    yield lambda number: (Batch(*one) for one in loader)
    loader._iterator = None  # ends the workers


def expected(data: bytes, box: Any, task: Filter, side: int) -> Pixels:
    """The crop that is the reference: Pillow decodes, torchvision's v2 resizes."""
    import io

    from PIL import Image
    from torchvision.transforms.v2 import functional

    left, top, width, height, mirrored = (int(one) for one in box)
    image = functional.pil_to_tensor(Image.open(io.BytesIO(data)).convert("RGB"))
    wanted = task == "antialiased"
    crop = functional.resized_crop(image, top, left, height, width, [side, side], antialias=wanted)
    found: Pixels = (crop.flip(-1) if mirrored else crop).contiguous().numpy()
    return found
