"""The kinds of findings about one image. To add one, write a function here: nothing else is edited."""

from __future__ import annotations

from pipebench.check.kinds import Looked, of_image
from pipebench.errors import SampleError
from pipebench.results.measurement import UNFIT

_GONE = frozenset({"vanished", "unreadable", "not-regular"})
_OTHER_PIXELS = frozenset({"disagrees", "contract"})
FORMATS = {
    "jpg": "JPEG", "jpeg": "JPEG", "png": "PNG", "webp": "WEBP", "bmp": "BMP", "ppm": "PPM", "pgm": "PPM",
    "tif": "TIFF", "tiff": "TIFF",
}  # fmt: skip
_STARTS = (
    (b"<!doctype html", "HTML"), (b"<html", "HTML"), (b"<svg", "SVG"), (b"<?xml", "XML"), (b"%pdf", "PDF"),
    (b"version https://git-lfs", "a pointer of Git LFS, not the file"), (b"pk\x03\x04", "a zip archive"),
    (b"\x1f\x8b", "gzip"), (b"{", "JSON"), (b"\0\0\0\0\0\0\0\0", "zero bytes"),
)  # fmt: skip


def _problem(looked: Looked, *kinds: str) -> str | None:
    return looked.problem.message if looked.problem is not None and looked.problem.kind in kinds else None


@of_image("unreadable", "breaks", "unreadable", "mend links and permissions, or remove it")
def unreadable(looked: Looked) -> str | None:
    return _problem(looked, *_GONE)


@of_image("empty", "breaks", "empty", "fetch it again, or remove it")
def empty(looked: Looked) -> str | None:
    return "" if _problem(looked, "empty") is not None else None


@of_image("not-an-image", "breaks", "no image", "fetch it again, or remove it")
def not_an_image(looked: Looked) -> str | None:
    if _problem(looked, "not-an-image") is None:
        return None
    start = looked.data[:64].lstrip().lower()
    if b"ftyp" in looked.data[4:8]:
        return "HEIC or a film"
    return next((name for magic, name in _STARTS if start.startswith(magic)), "of no known format")


@of_image("too-large", "breaks", "larger than Pillow accepts", "make it smaller, or remove it")
def too_large(looked: Looked) -> str | None:
    return _problem(looked, "too-large")


@of_image("cut-member", "breaks", "cut off, or twice, in its tar", "write the shard again")
def cut_member(looked: Looked) -> str | None:
    return _problem(looked, "truncated", "duplicate")


def _of_reference(looked: Looked) -> SampleError | None:
    return next(iter(looked.tried.values()), None)


@of_image("truncated", "breaks", "truncated", "fetch it again; LOAD_TRUNCATED_IMAGES makes pixels up")
def truncated(looked: Looked) -> str | None:
    error = _of_reference(looked)
    return error.message if error is not None and "truncated" in error.message.lower() else None


@of_image("undecodable", "breaks", "not decodable", "fetch it again, or remove it")
def undecodable(looked: Looked) -> str | None:
    error = _of_reference(looked)
    return error.message if error is not None and truncated(looked) is None else None


@of_image("damaged", "changes", "damaged, unnoticed by Pillow", "fetch it again, or remove it")
def damaged(looked: Looked) -> str | None:
    """A stricter decoder refuses what the reference decodes without a word: pixels were made up."""
    if _of_reference(looked) is not None:
        return None
    refused = ((name, error) for name, error in looked.tried.items() if error is not None and _refusal(error))
    return next((f"{name}: {error.message}" for name, error in refused), None)


def _refusal(error: SampleError) -> bool:
    return error.kind not in _OTHER_PIXELS | UNFIT


@of_image("disagree", "changes", "decoded otherwise by another library", "use one library everywhere")
def disagree(looked: Looked) -> str | None:
    """How far the pixels differ, beyond the tolerance for honest decoders (`stages/agreement.py`)."""
    others = (
        f"{name}: {error.message}"
        for name, error in looked.tried.items()
        if error is not None and error.kind in _OTHER_PIXELS
    )
    return next(others, None)


@of_image("extension", "changes", "not what its name says", "rename it: some loaders go by the name")
def extension(looked: Looked) -> str | None:
    if looked.header is None:
        return None
    wanted = FORMATS.get(looked.sample.image.rpartition(".")[2])
    return None if wanted in (None, looked.header.format) else f"{looked.header.format}"


@of_image("orientation", "note", "EXIF orientation", "decoders differ: use one, or exif_transpose")
def orientation(looked: Looked) -> str | None:
    if looked.orientation == 1:
        return None
    turned = [name for name, error in looked.tried.items() if error is not None and error.kind == "rotated"]
    return f"orientation {looked.orientation}" + (f"; {', '.join(turned)} turns it" if turned else "")


@of_image("cmyk", "changes", "CMYK", "save it as RGB: libraries convert it differently")
def cmyk(looked: Looked) -> str | None:
    return "" if looked.header is not None and looked.header.mode in ("CMYK", "YCCK") else None


@of_image("deep", "changes", "more than 8 bits", "convert it yourself: libraries do it differently")
def deep(looked: Looked) -> str | None:
    return f"{looked.header.bits} bits" if looked.header is not None and looked.header.bits > 8 else None


@of_image("animated", "changes", "several frames or pages", "save the one that is meant")
def animated(looked: Looked) -> str | None:
    return looked.header.format if looked.header is not None and looked.header.animated else None


@of_image("grey", "note", "grey", "image.convert('RGB') gives three channels")
def grey(looked: Looked) -> str | None:
    return "" if looked.header is not None and looked.header.mode in ("1", "L", "LA") else None


@of_image("palette", "note", "palette", "image.convert('RGB') gives colours, not their numbers")
def palette(looked: Looked) -> str | None:
    return "" if looked.header is not None and looked.header.mode in ("P", "PA") else None


@of_image("transparent", "note", "transparent", "image.convert('RGB') shows what was hidden")
def transparent(looked: Looked) -> str | None:
    return "" if looked.header is not None and looked.header.mode == "RGBA" else None
