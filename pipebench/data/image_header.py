"""The header of an encoded image, read before anything is decoded and before any pixel is allocated."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from pipebench.errors import SampleError

MAX_PIXELS = 178_956_970  # where Pillow refuses an image: twice its MAX_IMAGE_PIXELS
# The raster formats that photographs are stored in. Pillow opens more, whatever the file's suffix: some start a program
# (EPS: Ghostscript) or hold no pixels. None of those may touch a file from strangers.
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "PPM", "TIFF", "GIF", "AVIF", "JPEG2000")

T = TypeVar("T")
_EXIF_ORIENTATION = 0x0112
_DEEP = {"I;16": 16, "I": 32, "F": 32}  # bits a channel of Pillow's modes that have more than 8


@dataclass(frozen=True)
class Header:
    """What an image's header states: one of `FORMATS`, the size in pixels, Pillow's mode, and the bits of a channel."""

    format: str
    width: int
    height: int
    mode: str
    bits: int
    animated: bool


def image_size(data: bytes) -> tuple[int, int]:
    """Width and height in pixels, from the header alone.

    Raises `SampleError` with the kind `empty`, `not-an-image` (none of `FORMATS`) or `too-large` (over `MAX_PIXELS`,
    where Pillow refuses too).
    """
    width, height = next(_images(data, lambda name, image: image.size), (0, 0))
    _check(data, width, height)
    return width, height


def header(data: bytes) -> Header:
    """What the header of an encoded image states. Raises as `image_size`."""
    found = next(_images(data, lambda name, image: _header(name, image, data)), None)
    _check(data, found.width if found else 0, found.height if found else 0)
    assert found is not None
    return found


def _check(data: bytes, width: int, height: int) -> None:
    if not data:
        raise SampleError("empty", "the file is empty")
    if min(width, height) < 1:
        raise SampleError("not-an-image", "no image format was recognised")
    if width * height > MAX_PIXELS:
        raise SampleError("too-large", f"the header states {width}×{height} pixels, more than {MAX_PIXELS:,}")


def orientation(data: bytes) -> int:
    """The orientation that EXIF states, 1 to 8. 1 (as it is stored) if none is stated, or none that can be read."""
    found = next(_images(data, lambda name, image: image.getexif().get(_EXIF_ORIENTATION, 1)), 1)
    return found if isinstance(found, int) and 1 <= found <= 8 else 1


def has_restart_markers(data: bytes) -> bool:
    """Whether this is a JPEG whose header states an interval of restart markers (a DRI segment)."""
    place, found = 2, False
    while data[:2] == b"\xff\xd8" and data[place : place + 1] == b"\xff":
        kind, length = data[place + 1 : place + 2], int.from_bytes(data[place + 2 : place + 4])
        if kind == b"\xda":  # the pixels begin
            break
        if kind == b"\xdd":
            found = any(data[place + 4 : place + 6])
        place += 2 + max(2, length)
    return found


def _images(data: bytes, look: Callable[[str, Any], T]) -> Iterator[T]:
    """What `look` finds in the image of each of `FORMATS` that recognises `data`; its pixels are not loaded yet.

    `Image.open` is not used, because it warns about large images and a warning cannot be silenced in one thread only.
    """
    from PIL import Image

    Image.preinit()  # the usual formats; the others are imported where these do not fit
    for name in FORMATS:
        if name not in Image.OPEN:
            Image.init()
        opener, accepts = Image.OPEN.get(name, (None, None))
        if opener is None:  # this Pillow was built without it
            continue
        try:
            accepted = accepts is None or accepts(data[:16])
            if isinstance(accepted, str) or not accepted:  # text says that the format's library is missing
                continue
            with opener(io.BytesIO(data), "") as image:
                found = look(name, image)
        except Exception:  # whatever a plugin raises on hostile bytes, the next one may know better
            continue
        yield found


def _header(name: str, image: Any, data: bytes) -> Header:
    deep = 16 if name == "PNG" and data[24:25] == b"\x10" else 8  # its bit depth; Pillow keeps 8 of 16
    bits = next((bits for mode, bits in _DEEP.items() if image.mode.startswith(mode)), deep)
    animated = name != "JPEG" and bool(getattr(image, "is_animated", False))  # a JPEG may hold a preview beside it
    width, height = image.size
    return Header(name, width, height, image.mode, bits, animated)
