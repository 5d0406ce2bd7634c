"""The header of an encoded image, read before anything is decoded and before any pixel is allocated."""

from __future__ import annotations

import io

from pipebench.errors import SampleError

MAX_PIXELS = 178_956_970  # where Pillow refuses an image: twice its MAX_IMAGE_PIXELS
# The raster formats that photographs are stored in. Pillow opens more, whatever the file's suffix: some start a program
# (EPS: Ghostscript) or hold no pixels. None of those may touch a file from strangers.
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "PPM", "TIFF", "GIF", "AVIF", "JPEG2000")


def image_size(data: bytes) -> tuple[int, int]:
    """Width and height in pixels, from the header alone.

    Raises `SampleError` with the kind `empty`, `not-an-image` (none of `FORMATS`) or `too-large` (over `MAX_PIXELS`,
    where Pillow refuses too).
    """
    if not data:
        raise SampleError("empty", "the file is empty")
    size = _stated_size(data)
    if size is None or min(size) < 1:
        raise SampleError("not-an-image", "no image format was recognised")
    if size[0] * size[1] > MAX_PIXELS:
        raise SampleError("too-large", f"the header states {size[0]}×{size[1]} pixels, more than {MAX_PIXELS:,}")
    return size


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


def _stated_size(data: bytes) -> tuple[int, int] | None:
    """The size that the first of `FORMATS` to recognise `data` reads from its header.

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
                return image.size
        except Exception:  # whatever a plugin raises on hostile bytes, the next one may know better
            continue
    return None
