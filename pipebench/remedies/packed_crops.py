"""What a packed copy would gain for a script that decodes only its crops: measured on a copy of some of its images."""

from __future__ import annotations

import functools
import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipebench.errors import PipebenchError, SampleError
from pipebench.remedies import files

IMAGES = 300
BUDGET_S = 3.0  # no new image is begun after that
_AREA, _RATIO = (0.08, 1.0), (3 / 4, 4 / 3)  # of a crop, as torchvision's RandomResizedCrop draws it by default


@dataclass(frozen=True)
class PackedCrops:
    """Seconds for `images` images: Pillow's whole decode, and the decode of a crop before and after packing.

    `grows` is the size of the packed copy beside that of the files.
    """

    images: int
    whole_s: float
    before_s: float
    after_s: float
    grows: float


@functools.cache
def of_files(paths: tuple[str, ...]) -> PackedCrops | None:
    """Measures on these files. None: none of them can be packed."""
    try:
        return measured(paths)
    except (PipebenchError, OSError):
        return None


def measured(paths: Sequence[str], now: Callable[[], float] = time.perf_counter) -> PackedCrops | None:
    """Packs each image in memory, and decodes a crop of it before and after, in turn. A crop is drawn at random."""
    from pipebench.native import packing, region

    region.library_name()  # it may have to be built first
    rng, sums, images, sizes, begun = random.Random(0), [0.0, 0.0, 0.0], 0, [0, 0], now()
    for path in paths:
        if now() - begun > BUDGET_S:
            break
        data = files.content(path)
        try:
            packed, size = packing.pack(data), region.image_size(data)
        except SampleError:  # a copy of the data keeps it as it is
            continue
        box = crop_of(size, rng)
        ways = (_whole(data), _part(data, box), _part(packed, box))
        taken = _readings(ways, images, now)
        images, sizes = images + 1, [sizes[0] + len(data), sizes[1] + len(packed)]
        sums = [one + other for one, other in zip(sums, taken, strict=True)]
    whole, before, after = sums
    return PackedCrops(images, whole, before, after, sizes[1] / sizes[0]) if images else None


def _readings(ways: Sequence[Callable[[], object]], turn: int, now: Callable[[], float]) -> list[float]:
    """The seconds of each way. Which is first changes from image to image; before the very first, each runs once."""
    for way in ways if turn == 0 else ():
        way()
    taken = [0.0] * len(ways)
    for place in (*range(turn % len(ways), len(ways)), *range(turn % len(ways))):
        begin = now()
        ways[place]()
        taken[place] = now() - begin
    return taken


def crop_of(size: tuple[int, int], rng: random.Random) -> tuple[int, int, int, int]:
    """Left, top, width and height of a crop of an image of this width and height."""
    area = size[0] * size[1] * rng.uniform(*_AREA)
    ratio = math.exp(rng.uniform(*map(math.log, _RATIO)))
    sides = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
    width, height = (max(1, min(one, most)) for one, most in zip(sides, size, strict=True))
    return rng.randint(0, size[0] - width), rng.randint(0, size[1] - height), width, height


def _whole(data: bytes) -> Callable[[], object]:
    import io

    from PIL import Image

    return lambda: Image.open(io.BytesIO(data)).convert("RGB")


def _part(data: bytes, box: tuple[int, int, int, int]) -> Callable[[], object]:
    from pipebench.native import region

    return lambda: region.decode_and_crop(data, box)
