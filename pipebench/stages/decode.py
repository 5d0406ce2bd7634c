"""Decode: from encoded bytes to the whole image as RGB uint8, measured alone (`crop` includes a decode of its own).

The rows of Pillow and pillow-simd name their libjpeg, because much of the difference between decoders comes from the
age of that library and not from their own code.
"""

from __future__ import annotations

import functools
import io
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from pipebench.data.image_header import FORMATS, header, image_size
from pipebench.errors import SampleError
from pipebench.native import building
from pipebench.stages import agreement, read
from pipebench.task import RunnerSpec, Task, Unavailable, Variant, Work, Workload, task, variant

DRAFT = (256, 256)
SCALES = (1, 2, 4, 8)  # of decoders: one side of so many pixels becomes one
# Pillow's modes of which all libraries make the same RGB: transparency is dropped. CMYK is not among them.
PLAIN = frozenset({"1", "L", "LA", "P", "PA", "RGB", "RGBA"})
# A decode at half scale keeps the lower 4×4 frequencies of a block, which is not the mean of 2×2 pixels: in noise of
# standard deviation s they differ by 0.25 to 0.3 s, root mean square. Up to 1.3 levels on the data sets here.
REDUCED_MEAN = 6.0

Pixels = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True)
class Encoded:
    """The bytes of one image, and the width and height that its header claims."""

    data: bytes
    width: int
    height: int


def encoded(workload: Workload, key: str) -> Encoded:
    """One sample's image. Raises `SampleError` if it cannot be read, is not an image, or is too large for Pillow."""
    data = read.sample(workload, key).read()
    return Encoded(data, *image_size(data))


def _inputs(workload: Workload, keys: Sequence[str]) -> list[Encoded]:
    return [encoded(workload, key) for key in keys]


def pixels(output: Any) -> Pixels:
    """An image as a height × width × 3 array; tensors are given as 3 × height × width."""
    array = output if isinstance(output, np.ndarray) else output.numpy().transpose(1, 2, 0)
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[-1] != 3:
        raise SampleError("contract", f"it is {array.dtype} {array.shape}, not RGB uint8")
    return array


TURNED = "it is turned by an EXIF orientation, which only some decoders apply"


def check(output: Any, given: Encoded) -> None:
    height, width, _ = pixels(output).shape
    if (height, width) == (given.width, given.height) != (width, height):
        raise SampleError("rotated", TURNED)
    if not any(_scaled(height, given.height, by) and _scaled(width, given.width, by) for by in SCALES):
        raise SampleError("contract", f"it is {width}×{height} where the header says {given.width}×{given.height}")


def _scaled(side: int, whole: int, by: int) -> bool:
    """Whether `side` is 1/`by` of `whole`: libjpeg rounds up, image resizing rounds down."""
    return side in (whole // by, -(-whole // by))


def agree(output: Any, expected: Any, variant: Variant) -> None:
    ours, theirs = pixels(output), pixels(expected)
    if ours.shape == theirs.shape:
        try:
            return agreement.same_pixels(ours, theirs)
        except SampleError:
            if _turned(ours, theirs):
                raise SampleError("rotated", TURNED) from None
            raise
    if not variant.gives_up:
        raise SampleError("disagrees", f"it is {ours.shape} where the reference is {theirs.shape}")
    _agree_at_scale(ours, theirs)


def _agree_at_scale(ours: Pixels, theirs: Pixels) -> None:
    """A picture at 1/2, 1/4 or 1/8 agrees with the whole one, made smaller in the same way. So does every block."""
    (height, width), (whole_height, whole_width) = ours.shape[:2], theirs.shape[:2]
    by = next((by for by in SCALES if _scaled(height, whole_height, by) and _scaled(width, whole_width, by)), None)
    if by is None:
        raise SampleError("disagrees", f"it is {ours.shape}, no scale of {theirs.shape}")
    expected = agreement.reduced(agreement.reduced(theirs, 0, height, by), 1, width, by)
    agreement.mean(ours[: expected.shape[0], : expected.shape[1]], expected, REDUCED_MEAN)
    if height * by < whole_height or width * by < whole_width:  # stretched, so no block lies where it was
        return agreement.blocks(ours, expected, agreement.SIDE // by, agreement.UPSAMPLED / by)
    agreement.blocks(ours, theirs, agreement.SIDE, agreement.UPSAMPLED)  # the mean of a block is kept at every scale


def _turned(ours: Pixels, theirs: Pixels) -> bool:
    """Whether one image is the other turned by 180°, mirrored or (if square) turned by 90°, which no shape shows."""
    poses = [theirs[::-1], theirs[:, ::-1], theirs[::-1, ::-1]]
    if theirs.shape[0] == theirs.shape[1]:
        side = theirs.transpose(1, 0, 2)
        poses += [side, side[::-1], side[:, ::-1], side[::-1, ::-1]]
    return any(_close(ours, pose) for pose in poses)


def _close(ours: Pixels, theirs: Pixels) -> bool:
    try:
        agreement.same_pixels(ours, theirs)
    except SampleError:
        return False
    return True


def _work(given: Encoded, output: Any) -> Work:
    return Work(1, len(given.data), int(pixels(output).nbytes))


task(
    Task(
        id="decode/rgb",
        summary="encoded bytes to the whole image, RGB uint8",
        groups=read.keys,
        inputs=_inputs,
        check=check,
        agree=agree,
        work=_work,
        per_call=lambda workload: 4 if workload.quick else 16,
    )
)


def _pillow_simd_folder() -> Path:
    folder = building.pillow_simd_folder()
    if folder is None:
        raise Unavailable("not-built", "build it beside Pillow with `pipebench build pillow-simd` (or `make simd`)")
    return folder


def made_for(*formats: str) -> Callable[[Encoded], str | None]:
    """Tells why a decoder that reads `formats` (none: all) is not made for an image; None if it is.

    Of CMYK, and of more than 8 bits, libraries make RGB in different ways.
    """

    def unfit(given: Encoded) -> str | None:
        stated = header(given.data)
        if formats and stated.format not in formats:
            return f"it is {stated.format}"
        if stated.mode not in PLAIN or stated.bits > 8:
            return f"it is {stated.mode if stated.mode not in PLAIN else f'of {stated.bits} bits'}"
        return "it is animated" if stated.animated else None

    return unfit


PILLOW_SIMD = RunnerSpec("pillow-simd", path=_pillow_simd_folder)
Decoding = Callable[[Encoded], Any]


def pillow_library() -> str:
    from PIL import __version__, features

    kind = "pillow-simd" if "post" in __version__ else "Pillow"
    return f"{kind} {__version__}, libjpeg-turbo {features.version('libjpeg_turbo') or 'none'}"


def library(name: str) -> Callable[[], str]:
    """The installed version of a distribution, for the row's note."""
    return lambda: f"{name} {metadata.version(name)}"


def opencv_library() -> str:
    import cv2

    built = next((line for line in cv2.getBuildInformation().splitlines() if " JPEG:" in line), "")
    return f"OpenCV {cv2.__version__}, {built.partition(':')[2].strip()}"


def rgb(image: Any) -> Any:
    """A Pillow image in RGB. Unlike `convert`, it does not copy an image that is RGB already."""
    return image if image.mode == "RGB" else image.convert("RGB")


@variant("decode/rgb", name="pillow", library=pillow_library)
def pillow(workload: Workload) -> Decoding:
    """`PIL.Image.open`, then a NumPy array."""
    from PIL import Image

    return lambda given: np.asarray(rgb(Image.open(io.BytesIO(given.data), formats=FORMATS)))


def no_draft(given: Encoded) -> str | None:
    """Why Pillow decodes an image whole, whatever `draft` asks for."""
    stated = header(given.data).format
    return None if stated == "JPEG" else f"it is {stated}"


@variant(
    "decode/rgb",
    name="pillow-draft",
    library=pillow_library,
    gives_up="resolution: the nearest scale above 256",
    unfit=no_draft,
)
def pillow_draft(workload: Workload) -> Decoding:
    """Pillow's `draft` mode: a JPEG decoded at 1/2, 1/4 or 1/8 scale, no smaller than 256×256."""
    from PIL import Image

    def decode(given: Encoded) -> Pixels:
        image = Image.open(io.BytesIO(given.data), formats=FORMATS)
        image.draft("RGB", DRAFT)
        return np.asarray(rgb(image))

    return decode


@variant("decode/rgb", name="pillow-simd", library=pillow_library, runner=PILLOW_SIMD)
def pillow_simd(workload: Workload) -> Decoding:
    """The same code as `pillow` in a process where PIL is pillow-simd."""
    return pillow(workload)


@functools.lru_cache(maxsize=1)
def opencv_flags() -> tuple[int, bool]:
    """`imdecode` flags for RGB as stored (no EXIF rotation), and whether the channels must still be swapped."""
    import cv2

    colour = getattr(cv2, "IMREAD_COLOR_RGB", cv2.IMREAD_COLOR)
    return colour | cv2.IMREAD_IGNORE_ORIENTATION, colour == cv2.IMREAD_COLOR


def opencv_decoder(flags: int, swap: bool) -> Callable[[bytes], Pixels]:
    """A function from bytes to an RGB array. Where OpenCV returns None, it raises `SampleError`."""
    import cv2

    def decode(data: bytes) -> Any:
        image = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
        if image is None:
            raise SampleError("undecodable", "cv2.imdecode returned None")
        return cv2.cvtColor(image, cv2.COLOR_BGR2RGB) if swap else image

    return decode


@variant("decode/rgb", name="opencv", library=opencv_library, extra="opencv", unfit=made_for())
def opencv(workload: Workload) -> Decoding:
    """`cv2.imdecode` to RGB."""
    decode = opencv_decoder(*opencv_flags())
    return lambda given: decode(given.data)


def _no_half(given: Encoded) -> str | None:
    narrow = min(given.width, given.height) < 2 and header(given.data).format != "JPEG"
    return "it is one pixel wide or high" if narrow else made_for()(given)


@variant(
    "decode/rgb",
    name="opencv-reduced",
    library=opencv_library,
    extra="opencv",
    gives_up="resolution: half",
    unfit=_no_half,
)
def opencv_reduced(workload: Workload) -> Decoding:
    """`cv2.imdecode` with `IMREAD_REDUCED_COLOR_2`: half scale."""
    import cv2

    decode = opencv_decoder(cv2.IMREAD_REDUCED_COLOR_2 | cv2.IMREAD_IGNORE_ORIENTATION, True)
    return lambda given: decode(given.data)


def as_tensor(data: bytes) -> Any:
    """The bytes as a uint8 tensor, not copied: decoders only read them."""
    import torch

    return torch.frombuffer(data, dtype=torch.uint8)


BY_TORCHVISION = made_for("JPEG", "PNG", "WEBP", "GIF")


def quiet_torchvision() -> Any:
    """`torchvision.io` without two warnings: that decoding moves to torchcodec, and that bytes are read-only."""
    import torchvision.io

    warnings.filterwarnings("ignore", message="(?s).*(deprecated|torchcodec|not writable).*")
    return torchvision.io


@variant("decode/rgb", name="torchvision", library=library("torchvision"), unfit=BY_TORCHVISION)
def torchvision(workload: Workload) -> Decoding:
    """`torchvision.io.decode_image` to a 3×H×W tensor."""
    io_ = quiet_torchvision()
    mode = io_.ImageReadMode.RGB
    return lambda given: io_.decode_image(as_tensor(given.data), mode)


@variant(
    "decode/rgb",
    name="torchcodec",
    library=library("torchcodec"),
    extra="torchcodec",
    unfit=made_for("JPEG", "PNG", "WEBP", "GIF", "AVIF"),
)
def torchcodec(workload: Workload) -> Decoding:
    """`torchcodec.decoders.decode_image` to a 3×H×W tensor."""
    from torchcodec.decoders import decode_image  # type: ignore[attr-defined]  # exported, but not by name

    return lambda given: decode_image(given.data)


@variant("decode/rgb", name="simplejpeg", library=library("simplejpeg"), extra="simplejpeg", unfit=made_for("JPEG"))
def simplejpeg(workload: Workload) -> Decoding:
    """`simplejpeg.decode_jpeg`: a thin binding of libjpeg-turbo, JPEG only.

    On one machine, 52 % of its time is entropy decoding, 36 % the rest of libjpeg-turbo, and 12 % new memory for the
    pixels.
    """
    from simplejpeg import decode_jpeg

    return lambda given: decode_jpeg(given.data, "RGB")
