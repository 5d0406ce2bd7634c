"""The embedded video: where it lies, what it holds, and the number that each of its frames carries.

`tools/make_video.py` made it. The number is written into the picture, so that a frame itself tells which one it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pipebench.data.datasets import manifests
from pipebench.host import machine
from pipebench.host.whole_files import write_whole

NAME = "pan.mp4"
WIDTH, HEIGHT, FRAMES, RATE = 340, 256, 192, 30  # pixels, pixels, frames, frames per second
SHA256 = "5235d599d03e3430b9e71a1391c45b527842cacdf4ec393314fbc8d85e997030"
BITS, SQUARE = 8, 16  # the number: so many squares of so many pixels in the first rows, white for 1, the highest first


def path() -> Path:
    """The path of the video, inside an installed package or in a checkout."""
    return manifests() / "video" / NAME


def copies(count: int) -> list[str]:
    """The paths of so many copies of the video in the cache folder, which are made where they are not.

    A data set of videos has another file for each sample, and the page cache has a state for each file. Raises
    PipebenchError where a copy cannot be written.
    """
    content, folder = path().read_bytes(), machine.cache_folder().absolute() / "video"
    found = [folder / f"{SHA256[:16]}-{number}.mp4" for number in range(count)]
    for one in found:
        if not one.is_file() or one.read_bytes() != content:
            write_whole(one, content)
    return list(map(str, found))


def numbered(picture: Any, number: int) -> Any:
    """A copy of a height × width × 3 picture that carries `number`."""
    marked = np.array(picture, np.uint8)
    for place in range(BITS):
        marked[:SQUARE, place * SQUARE : (place + 1) * SQUARE] = 255 * (number >> (BITS - 1 - place) & 1)
    return marked


def number_of(picture: Any) -> int:
    """The number that a height × width × 3 picture carries, read in the middle of each square."""
    middle = slice(SQUARE // 4, 3 * SQUARE // 4)
    found = 0
    for place in range(BITS):
        columns = slice(place * SQUARE + middle.start, place * SQUARE + middle.stop)
        found = found << 1 | int(np.asarray(picture)[middle, columns].mean() > 127)
    return found
