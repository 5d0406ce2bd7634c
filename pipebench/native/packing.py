"""Gives a JPEG restart markers, losslessly, so that a crop of it decodes only the stretches that it touches.

pack.c does the work and has libjpeg-turbo verify it; it is built on first use (see `building`). How the markers are
used: stretches.h. What it costs and gains: docs/decode-and-crop.md.
"""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import TYPE_CHECKING

from pipebench.errors import SampleError
from pipebench.native import multi_picture, passing

if TYPE_CHECKING:
    from typing_extensions import Buffer

SEGMENT = 96  # pixels between two markers, about: shorter ones cost bytes, longer ones cost decoding
_ROOM = 1 << 16  # bytes, besides half of the file: what a packed file may grow by


def pack(data: Buffer, segment: int = SEGMENT, keep_tables: bool = False) -> bytes:
    """The same JPEG with a restart marker about every `segment` pixels of a row, at the same column in every row.

    The interval is the divisor of the MCUs in a row (blocks of 8 to 32 pixels) that is nearest to `segment`, or the
    whole row where the nearest is more than three times as far apart or as near. The Huffman tables are optimised, or
    kept with `keep_tables`. All other segments are kept, and what follows the end of the image; only where an index of
    several pictures (MPO) says that the others lie, is changed. The coefficients of the result were read again and are
    those of `data`, so every decoder shows the same pixels.

    Raises `SampleError`, its `kind` being `unsupported` (progressive, arithmetic coding, 12 bits, lossless, CMYK),
    `not-jpeg`, `truncated`, `corrupt`, `too-large` or `empty`; `NativeError` where the library cannot be built. The
    GIL is released while it packs.
    """
    pointer, length = passing.pointer(data)
    if not b"\xff\xd8\xff".startswith(ctypes.string_at(pointer, min(length, 3))):  # libjpeg would skip what follows SOI
        raise SampleError("not-jpeg", "Not a JPEG file: no marker follows its start")
    library, message, written = _library(), passing.message(), ctypes.c_ulong()
    out = ctypes.create_string_buffer(length + length // 2 + _ROOM)
    kind = library.pack_file(
        pointer, length, segment, int(keep_tables), out, len(out), ctypes.byref(written), message
    )  # fmt: skip
    if kind:
        raise passing.error(kind, message)
    return multi_picture.moved(ctypes.string_at(pointer, length), ctypes.string_at(out, written.value))


def pack_if_possible(data: bytes) -> bytes:
    """What `pipebench pack` makes of a file: `pack(data)`, or `data` itself where it cannot have markers."""
    try:
        return pack(data)
    except SampleError:
        return data


def keep_memory() -> None:
    """Lets this process keep the memory that packing frees: for a process that packs many images, a fifth faster."""
    _library().pack_keep_memory()


@functools.cache
def _library() -> ctypes.CDLL:
    from pipebench.native import building  # here, so that `import pipebench` stays quick

    library = building.load(Path(__file__).with_name("pack.c"), ("jpeg",), passing.check("pack_check"))
    number, pointer = ctypes.c_ulong, ctypes.c_void_p
    library.pack_file.argtypes = [
        pointer, number, ctypes.c_uint, ctypes.c_int, pointer, number, pointer, pointer,
    ]  # fmt: skip
    return library
