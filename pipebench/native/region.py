"""Decodes only a box of a JPEG, so that pixels outside a random crop are never reconstructed.

`decode_and_crop` is the function; `transforms` has torchvision's transforms on top of it. region.c does the work with
libjpeg-turbo; it is built on first use (see `building`). For its cost and its checks see docs/decode-and-crop.md.
"""

from __future__ import annotations

import ctypes
import functools
import operator
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipebench.errors import SampleError
from pipebench.native import passing

if TYPE_CHECKING:
    import torch
    from typing_extensions import Buffer

SCALES = (1, 2, 4, 8)
PIXEL_LIMIT = 178_956_970  # as in reading.h
_registering = threading.Lock()
os.register_at_fork(after_in_child=lambda: globals().update(_registering=threading.Lock()))  # a thread may hold it

Box = tuple[int, int, int, int]


def decode_and_crop(
    data: Buffer | torch.Tensor, box: Sequence[int], scale: int = 1, *, out: torch.Tensor | None = None
) -> torch.Tensor:
    """A box of a JPEG as a uint8 tensor of shape (height, width, 3), RGB, without decoding the rest of the picture.

    `data` is the encoded file: anything bytes-like, or a 1-D uint8 tensor in host memory. Read-only buffers other than
    `bytes`, and buffers with gaps, are copied first (about 10 µs per 100 kB).

    `box` is left, top, width and height in pixels of the full image as it is stored: an EXIF orientation is not
    applied. All of it must lie inside the image.

    `scale` is 1, 2, 4 or 8: the picture is decoded at 1/scale, which leaves out the high frequencies and costs less.
    The result holds every pixel of the reduced picture that touches the box: columns left // scale to
    (left + width - 1) // scale, both included, and rows likewise. `scaled_size` returns its size.

    `out` is a contiguous uint8 tensor of the result's shape, such as a slot of a batch: the pixels are decoded into it,
    and it is returned. After an error, some of it may have been written.

    At scale 1 the pixels are those of `PIL.Image.open(...).convert("RGB").crop(...)`, bit by bit; at other scales
    those of Pillow after `draft`. Grey is expanded to RGB. The GIL is released while it decodes.

    Raises `ValueError` for a box that is empty, not whole numbers or not inside the image, for another scale, and for
    another `out`; `TypeError` where `data` is not bytes; `SampleError` for data that cannot be used, its `kind` being
    one of `empty`, `not-jpeg`, `truncated`, `corrupt`, `too-large` (over 178,956,970 pixels, as in Pillow) and
    `unsupported` (CMYK, YCCK, arithmetic coding, 12 bits, lossless); `native.NativeError`, a `PipebenchError`, where
    the library cannot be built. Damage below the box is not noticed in a sequential file: those bytes are never read.
    """
    checked = checked_box(box, scale)
    imported = sys.modules.get("torch")
    if out is None and imported is not None and isinstance(data, imported.Tensor):
        passing.check_tensor(data)
        cropped: torch.Tensor = torch_operator()(data, *checked, scale)
        return cropped
    pointer, length, _kept = passing.address(data)
    return _decode(pointer, length, checked, scale, out)


def crop_stream(data: Buffer, box: Sequence[int]) -> tuple[bytes, Box]:
    """A smaller JPEG that holds a box of a JPEG, and where the box lies in it. No pixel is decoded.

    It is for other decoders: they decode the small file and cut the box (left, top, width, height) out of it. `data`
    and `box` are as in `decode_and_crop`. The pixels of the box are those of the whole file, bit by bit. Segments that
    do not decide pixels (EXIF, ICC profile, comments) are left out.

    The file needs restart markers, as `pipebench pack` writes them. Where it has none that serve, all of `data` is
    returned, and `box` as it was. Raises `ValueError` for a box that is empty, not whole numbers or not inside the
    image, `SampleError` for data whose header cannot be read, and `native.NativeError` as `decode_and_crop`. Damage is
    not noticed: the pixels are not looked at.
    """
    left, top, width, height = checked = checked_box(box, 1)
    pointer, length = passing.pointer(data)
    library, stream, x, y = _library(), ctypes.c_void_p(), ctypes.c_uint(left), ctypes.c_uint(top)
    made = library.region_stream(
        pointer, length, ctypes.byref(x), ctypes.byref(y), width, height, ctypes.byref(stream)
    )  # fmt: skip
    if made:
        try:
            return ctypes.string_at(stream, made), (x.value, y.value, width, height)
        finally:
            library.region_free(stream)
    image = image_size(data)
    if left + width > image[0] or top + height > image[1]:
        raise ValueError(f"the box {checked} reaches outside the image of {image[0]} × {image[1]} pixels")
    return bytes(data), checked


def decode_and_fill(
    data: Buffer | torch.Tensor, box: Sequence[int], image: tuple[int, int], fill: float | Sequence[float] = 0
) -> torch.Tensor:
    """`decode_and_crop` with a box that may reach beyond an image of size `image` (width, height).

    Pixels outside have the value `fill`: one level, or one each for red, green and blue. Raises as `decode_and_crop`.
    """
    import torch

    left, top, width, height = box
    begin, above = max(left, 0), max(top, 0)
    inside = (begin, above, min(left + width, image[0]) - begin, min(top + height, image[1]) - above)
    if inside == (left, top, width, height):
        return decode_and_crop(data, inside)
    canvas = torch.empty((height, width, 3), dtype=torch.uint8)
    canvas[:] = torch.as_tensor(fill).to(torch.uint8)
    if inside[2] > 0 and inside[3] > 0:
        x, y = begin - left, above - top
        canvas[y : y + inside[3], x : x + inside[2]] = decode_and_crop(data, inside)
    return canvas


class Job(ctypes.Structure):
    """One box to decode and resize, as in into.h. `data` is an address, `scale` 1, 2, 4 or 8."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("bytes", ctypes.c_ulong), ("left", ctypes.c_uint), ("top", ctypes.c_uint),
        ("width", ctypes.c_uint), ("height", ctypes.c_uint), ("scale", ctypes.c_uint), ("flip", ctypes.c_uint),
    )  # fmt: skip


def run_jobs(jobs: Sequence[tuple[int, int, Box, int, bool]], exact: bool, out: torch.Tensor, named: str = "") -> None:
    """Decodes and resizes boxes into `out`, of shape (jobs, 3, height, width), in one call without the GIL.

    A job is the address and the number of the encoded bytes, the box, the scale, and whether it is mirrored. Raises as
    `decode_and_crop`; the text begins with `named`, which may name the `{index}` of the job that failed.
    """
    array = (Job * len(jobs))(*(Job(at, length, *box, scale, flip) for at, length, box, scale, flip in jobs))
    failed, message = ctypes.c_uint(), passing.message()
    height, width = out.shape[2:]
    kind = _library().region_batch(
        array, len(jobs), width, height, int(exact), out.data_ptr(), ctypes.byref(failed), message
    )  # fmt: skip
    if kind:
        raise passing.error(kind, message, named.format(index=failed.value))


def image_size(data: Buffer) -> tuple[int, int]:
    """Width and height in pixels from the header of a JPEG (about 10 µs). Raises as `decode_and_crop`."""
    pointer, length = passing.pointer(data)
    width, height, message = ctypes.c_uint(), ctypes.c_uint(), passing.message()
    kind = _library().region_size(pointer, length, ctypes.byref(width), ctypes.byref(height), message)
    if kind:
        raise passing.error(kind, message)
    return width.value, height.value


def scaled_size(box: Sequence[int], scale: int) -> tuple[int, int]:
    """Height and width of the result of `decode_and_crop`: the reduced pixels at 1/`scale` that touch `box`."""
    left, top, width, height = box
    return (top + height - 1) // scale + 1 - top // scale, (left + width - 1) // scale + 1 - left // scale


def library_name() -> str:
    """Name and version of the decoding library: `libjpeg-turbo 2.1.5`. Raises `NativeError` if it is missing."""
    return f"libjpeg-turbo {_library().region_version().decode()}"


def torch_operator() -> Any:
    """`torch.ops.pipebench.decode_and_crop(data, left, top, width, height, scale=1)`.

    The operator is registered when `pipebench.region` is imported after torch, at the first decode, or by this
    function.

    `data` is a 1-D uint8 tensor in host memory. It has a fake implementation, so that shapes propagate under
    `torch.compile` and `torch.export`.
    """
    import torch

    with _registering:
        if not hasattr(torch.ops.pipebench, "decode_and_crop"):
            _register(torch)
    return torch.ops.pipebench.decode_and_crop


def register_beside_torch() -> None:
    """Registers the operator if torch is imported already. This module imports torch only to decode."""
    if hasattr(sys.modules.get("torch"), "library"):
        torch_operator()


def _register(torch: Any) -> None:
    schema = "(Tensor data, SymInt left, SymInt top, SymInt width, SymInt height, SymInt scale=1) -> Tensor"

    def real(data: torch.Tensor, left: int, top: int, width: int, height: int, scale: int = 1) -> torch.Tensor:
        box = checked_box((left, top, width, height), scale)
        data = data.contiguous()
        return _decode(data.data_ptr(), data.numel(), box, scale)

    def fake(data: torch.Tensor, left: int, top: int, width: int, height: int, scale: int = 1) -> torch.Tensor:
        return data.new_empty((*scaled_size((left, top, width, height), scale), 3))

    decorate = torch.library.custom_op("pipebench::decode_and_crop", mutates_args=(), device_types="cpu", schema=schema)
    decorate(real).register_fake(fake)


def checked_box(box: Sequence[int], scale: int = 1) -> Box:
    """The four numbers of a box. Raises `ValueError` as `decode_and_crop`, but for what needs the image's size."""
    try:
        left, top, width, height = map(operator.index, box)
    except TypeError as error:
        raise ValueError(f"a box is four whole numbers (left, top, width, height), not {box!r}") from error
    except ValueError as error:
        raise ValueError(f"a box is left, top, width and height, not {len(box)} numbers") from error
    if scale not in SCALES or not isinstance(scale, int):
        raise ValueError(f"scale must be 1, 2, 4 or 8 (the picture is decoded at 1/scale), not {scale!r}")
    if width < 1 or height < 1:
        raise ValueError(f"a box of width {width} and height {height} is empty")
    if left < 0 or top < 0 or max(left, top) > PIXEL_LIMIT or width * height > PIXEL_LIMIT:
        raise ValueError(f"the box (left {left}, top {top}, width {width}, height {height}) reaches outside the image")
    return left, top, width, height


def _decode(pointer: int, length: int, box: Box, scale: int, out: torch.Tensor | None = None) -> torch.Tensor:
    import torch

    if length == 0:
        raise SampleError("empty", "there are no bytes to decode")
    shape = (*scaled_size(box, scale), 3)
    if out is not None:
        passing.check_out(out, shape)
    pixels = torch.empty(shape, dtype=torch.uint8) if out is None else out
    message = passing.message()
    kind = _library().region_decode(pointer, length, *box, scale, pixels.data_ptr(), message)
    if kind:
        raise passing.error(kind, message)
    return pixels


@functools.cache
def _library() -> ctypes.CDLL:
    from pipebench.native import building  # here, so that `import pipebench` stays quick

    library = building.load(Path(__file__).with_name("region.c"), ("jpeg",), passing.check("region_check"))
    unsigned, pointer = ctypes.c_uint, ctypes.c_void_p
    library.region_size.argtypes = [pointer, ctypes.c_ulong, pointer, pointer, pointer]
    library.region_decode.argtypes = [
        pointer, ctypes.c_ulong, unsigned, unsigned, unsigned, unsigned, unsigned, pointer, pointer,
    ]  # fmt: skip
    library.region_batch.argtypes = [
        pointer, unsigned, unsigned, unsigned, ctypes.c_int, pointer, pointer, pointer,
    ]  # fmt: skip
    library.region_stream.argtypes = [pointer, ctypes.c_ulong, pointer, pointer, unsigned, unsigned, pointer]
    library.region_stream.restype = ctypes.c_ulong
    library.region_free.argtypes = [pointer]
    library.region_version.restype = ctypes.c_char_p
    register_beside_torch()
    return library
