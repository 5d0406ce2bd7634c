"""What a crop gains by restart markers, measured on the data that was packed: the same boxes before and after."""

from __future__ import annotations

import contextlib
import io
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence

from pipebench import stats
from pipebench.data import listing
from pipebench.data.listing import Extent
from pipebench.errors import SampleError
from pipebench.native import region
from pipebench.native.region import Box
from pipebench.results.packing import CropGain

SIDE = 256  # pixels
IMAGES = 16
ROUNDS = 24  # so that each of the 12 blocks of `stats.compare` has two pairs
LEAST_ROUNDS = 7  # with fewer, no interval reaches 95 %
BUDGET_S = 6.0  # no new round is begun after that, once there are so many


class Pairs:
    """Up to 2 × `IMAGES` of the images that were packed, spread evenly: where each lies before and after."""

    def __init__(self) -> None:
        self.kept: list[tuple[Extent, Extent]] = []
        self._seen = 0
        self._step = 1

    def add(self, before: Extent, after: Extent) -> None:
        if self._seen % self._step == 0:
            self.kept.append((before, after))
            if len(self.kept) == 2 * IMAGES:
                self.kept = self.kept[::2]
                self._step *= 2
        self._seen += 1


def measured(pairs: Sequence[tuple[Extent, Extent]], now: Callable[[], float] = time.perf_counter) -> CropGain | None:
    """The gain of a random crop, from interleaved readings. None if no image is large enough to crop."""
    work = [one for one in map(_boxed, pairs) if one is not None][:IMAGES]
    if not work:
        return None
    with _one_thread():
        usual, before, after = _readings(work, now)
    usual_s, before_s, after_s = (statistics.median(one) / len(work) for one in (usual, before, after))
    over_usual, over_before = stats.compare(after, usual), stats.compare(after, before)
    return CropGain(len(work), SIDE, usual_s, before_s, after_s, over_usual, over_before)


def _readings(work: Sequence[tuple[tuple[bytes, bytes], Box]], now: Callable[[], float]) -> list[list[float]]:
    """Readings of the three ways in turns; in seconds, one for all images."""
    ways = (_usually, _region(0), _region(1))
    readings: tuple[list[float], ...] = ([], [], [])
    begun = now()
    for index in range(ROUNDS + 1):
        for which in (0, 1, 2) if index % 2 else (2, 1, 0):
            begin = now()
            for data, box in work:
                ways[which](data, box)
            readings[which].append(now() - begin)
        if now() - begun > BUDGET_S and index >= LEAST_ROUNDS:
            break
    return [one[1:] for one in readings]  # the first round warms up


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _boxed(pair: tuple[Extent, Extent]) -> tuple[tuple[bytes, bytes], Box] | None:
    """The bytes before and after, and a random box in the image; None for an image no larger than the box, or one that
    Pillow cannot open."""
    try:
        data = listing.read_extent(pair[0]), listing.read_extent(pair[1])
        width, height = region.image_size(data[0])
    except SampleError:
        return None
    if min(width, height) <= SIDE or not _opens(data[0]):
        return None
    rng = random.Random(os.fsencode(pair[0].path) + b"%d" % pair[0].offset)  # the path need not be UTF-8
    return data, (rng.randint(0, width - SIDE), rng.randint(0, height - SIDE), SIDE, SIDE)


def _opens(data: bytes) -> bool:
    from PIL import Image

    try:
        Image.open(io.BytesIO(data)).load()
    except Exception:  # Pillow raises errors of many types
        return False
    return True


def _usually(data: tuple[bytes, bytes], box: Box) -> object:
    from PIL import Image
    from torchvision.transforms.functional import crop, pil_to_tensor

    left, top, width, height = box
    return crop(pil_to_tensor(Image.open(io.BytesIO(data[0])).convert("RGB")), top, left, height, width)


def _region(which: int) -> Callable[[tuple[bytes, bytes], Box], object]:
    return lambda data, box: region.decode_and_crop(data[which], box)
