"""A crop that is decoded alone: the first transform crops, so most pixels of a JPEG need not be made.

At full scale a RandomResizedCrop is the same, bit for bit. That is checked before, on some samples of each worker. With
the user's agreement that the weights are worth nothing, a decode at reduced scale is tried first, because it saves
most, and Resize with CenterCrop (Pillow rounds the edges of its box to single precision). Then the difference is told.

The user gets the classes that were tried; `pipebench.decode_and_crop` does their work. If it gained, what packed files
would bring is predicted from a packed copy of some of them.
"""

from __future__ import annotations

import functools
import shlex
from collections.abc import Sequence
from typing import Any

from pipebench.errors import PipebenchError
from pipebench.remedies import files, opening, packed_crops
from pipebench.remedies.seen import WORTH, Seen, share_of, without_share
from pipebench.remedies.source import call_of, steps_of
from pipebench.results.advice import Change, Finding, Rewrite
from pipebench.watch.record.patches import Patches
from pipebench.watch.trial import chains
from pipebench.watch.trial.compared import Comparing, compare_first
from pipebench.watch.trial.edits import Edit
from pipebench.watch.trial.pictures import checked, counting, is_undecoded, replace_convert

PLACE = 5
TITLE = "decoding only the crop"
PACKED = "crops of packed files"
REDUCED = "decoding only the crop, reduced"
LEAST_SHARE = 0.15  # of the time of the workers: decode and crop together
# Of the range of the values, on average. Smaller decodes differ by up to 1.8 levels of 255 (docs/decode-and-crop.md).
TOLERANCE = 3 / 255
HOW = (
    "Hand the bytes of the file to pipebench.RandomResizedCropFromBytes(size{}),",
    'in place of Image.open(...).convert("RGB") and RandomResizedCrop(size).',
)
HOW_CENTER = ("Decode with pipebench.decode_and_crop the box that Resize and CenterCrop keep.",)
HOW_WRITTEN = ("Put it into {}(...), and open images by undecoded(...).", "`--patch FILE` writes both definitions.")
_DIFFER = "samples-differ"  # a reduced decode may differ where a whole one does not
_CROP, _RESIZE, _CENTER = "RandomResizedCrop", "Resize", "CenterCrop"
_POINTWISE = ("ToImage", "PILToTensor", "ToTensor", "RGB", "ToDtype", "ConvertImageDtype")  # may stand before the crop


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    decode, name = share_of(seen, "decode", "ImageFile.load"), _first(seen)
    if not seen.workers or not seen.waits or not name or decode < LEAST_SHARE or not _works():
        return None
    if name == _CENTER and (tried or not seen.discards):
        return None
    if tried and tried[-1].gain is None and tried[-1].reason != _DIFFER:
        return None
    ways = [False] * seen.discards + [True] * (name == _CROP)  # whether each is exact, in their order
    done = [one for one in tried if not one.change.of_script]
    if len(done) >= len(ways):
        gained = any(one.outcome == "gain" for one in done)
        return _packed(seen, decode) if gained and len(tried) == len(done) else None
    exact = ways[len(done)]
    share = decode + sum(share_of(seen, "transform", one) for one in (_CROP, _RESIZE, _CENTER))
    written = _rewrites(seen, name, exact)
    how = tuple(one.format(", exact=True" if exact else "") for one in HOW) if name == _CROP else HOW_CENTER
    if written:
        how = tuple(one.format(_class(name).__name__) for one in HOW_WRITTEN)
    return Change(
        "from_bytes", {}, "two definitions" if exact else "other pixels",
        predicted=min(seen.most, without_share(share)), title=TITLE if exact or name == _CENTER else REDUCED,
        edits={"from_bytes": {} if exact else {"exact": False}}, how=how, at=call_of(seen, name), discards=not exact,
        rewrites=written, group="decode",
    )  # fmt: skip


def _packed(seen: Seen, decode: float) -> Change | None:
    """The same on packed files: predicted from a packed copy of some of the user's files. It is not tried."""
    found = packed_crops.of_files(files.jpegs(seen, packed_crops.IMAGES))
    if found is None:
        return None
    before, after = (1 / (1 - decode * (1 - one / found.whole_s)) for one in (found.before_s, found.after_s))
    if min(seen.most, after) < WORTH * min(seen.most, before):
        return None
    return Change(
        "from_bytes", {}, "a copy of the data", predicted=min(seen.most, after), title=PACKED, of_script=True,
        how=(f"pipebench pack {shlex.quote(files.folder_of(seen))} packed",), group="decode",
        basis=f"{found.images} of your images were packed: {found.before_s / found.after_s:.1f}× as fast a crop as "
        f"without, for {found.grows:.2f}× the bytes",
    )  # fmt: skip


def _first(seen: Seen) -> str:
    """The crop that the transforms begin with, by their rows; "" if there is none."""
    if share_of(seen, "transform", _CROP):
        return _CROP
    both = share_of(seen, "transform", _RESIZE) and share_of(seen, "transform", _CENTER)
    return _CENTER if both else ""


def _works() -> bool:
    """Whether the piece in C is here, or can be built."""
    from pipebench.native import region

    try:
        region.library_name()
    except PipebenchError:
        return False
    return True


def _rewrites(seen: Seen, name: str, exact: bool) -> tuple[Rewrite, ...]:
    """The crop within our class, and images that are opened without a decode; nothing if a place is not known."""
    found, opened = steps_of(seen, name, place_of), opening.rewrites(seen, undecoded, later=True)
    if found is None or opened is None:
        return ()
    source, steps = found
    wanted = _class(name)
    ending = ", exact=False)" if wanted is CropFromBytes and not exact else ")"
    wrapped = source.wrapped(steps[0], steps[-1], f"{wanted.__name__}(", ending)
    return (*wrapped, source.defined(wanted, steps[-1]), *opened)


def place_of(names: Sequence[str]) -> slice | None:
    """Where transforms with these names begin with a crop, and what changes no place in the image before it."""
    if list(names[:2]) == [_RESIZE, _CENTER]:
        return slice(0, 2)
    if _CROP not in names or any(one not in _POINTWISE for one in names[: names.index(_CROP)]):
        return None
    return slice(0, names.index(_CROP) + 1)


class _FromBytes(Edit):
    def __init__(self, exact: bool = True) -> None:
        self.exact = exact

    def in_worker(self, fetcher: Any, patches: Patches) -> None:
        chain = chains.only_chain(fetcher.dataset, place_of)
        kind: Any = _class(type(chain.steps[-1]).__name__)
        made: list[int] = []

        def change() -> None:
            replace_convert(patches, undecoded)
            reduced = {"exact": False} if kind is CropFromBytes and not self.exact else {}
            chain.replace(counting(kind(*chain.steps, **reduced), made, is_undecoded), patches)

        how = Comparing(0.0) if self.exact else Comparing(None, mean_share=TOLERANCE)
        compare_first(fetcher, change, how, functools.partial(checked, made, "no-jpegs"))


edit = _FromBytes


def _class(name: str) -> type:
    return CropFromBytes if name == _CROP else CenterFromBytes


# What follows is written into the user's file, so it needs nothing of this one.


def undecoded(image):  # type: ignore[no-untyped-def]
    """This image, or the one of this path, in RGB. A JPEG is decoded as late as somebody needs its pixels."""
    import io

    from PIL import Image

    if not hasattr(image, "convert"):
        with Image.open(image) as opened:
            return undecoded(opened)  # type: ignore[no-untyped-call]
    if image.format != "JPEG" or image.mode != "RGB" or not image.tile:
        return image.convert("RGB")
    image.fp.seek(0)
    return Image.open(io.BytesIO(image.fp.read()))


class CropFromBytes:
    """The same as these transforms, of which the last is a RandomResizedCrop. Only the crop of a JPEG is decoded."""

    def __init__(self, *steps, exact=True):  # type: ignore[no-untyped-def]
        self.steps, self.exact = steps, exact

    def __call__(self, image):  # type: ignore[no-untyped-def]
        from PIL import Image
        from torchvision.transforms.functional import InterpolationMode, pil_modes_mapping
        from torchvision.transforms.v2 import functional

        import pipebench
        from pipebench.errors import SampleError

        def after(image):  # type: ignore[no-untyped-def]
            for step in before:
                image = step(image)
            return image

        if getattr(image, "format", None) != "JPEG" or image.mode != "RGB" or not image.tile:
            for step in self.steps:
                image = step(image)
            return image
        *before, crop = self.steps
        top, left, height, width = crop.get_params(image, crop.scale, crop.ratio)
        scale = 1
        while not self.exact and scale < 8 and min(height / crop.size[0], width / crop.size[1]) >= 2 * scale:
            scale *= 2
        image.fp.seek(0)
        try:
            pixels = pipebench.decode_and_crop(image.fp.read(), (left, top, width, height), scale)
            image = Image.fromarray(pixels.numpy())
        except SampleError:  # the data is damaged: Pillow may read it
            image, scale = image.crop((left, top, left + width, top + height)), 1
        if scale == 1:
            return functional.resize(after(image), list(crop.size), crop.interpolation, antialias=crop.antialias)  # type: ignore[no-untyped-call]
        # A reduced pixel that touches the box may reach beyond it.
        x, y = left % scale / scale, top % scale / scale
        mode = crop.interpolation
        mode = mode if isinstance(mode, int) else pil_modes_mapping[InterpolationMode(mode)]
        box = (x, y, x + width / scale, y + height / scale)
        return after(image.resize(crop.size[::-1], mode, box=box))  # type: ignore[no-untyped-call]


class CenterFromBytes:
    """The same as this Resize and this CenterCrop, within two levels. Only what they keep of a JPEG is decoded."""

    def __init__(self, resize, crop):  # type: ignore[no-untyped-def]
        self.resize, self.crop = resize, crop

    def __call__(self, image):  # type: ignore[no-untyped-def]
        import math

        from PIL import Image
        from torchvision.transforms.functional import InterpolationMode, pil_modes_mapping

        import pipebench
        from pipebench.errors import SampleError

        width, height = image.size
        sizes = self.resize.size if isinstance(self.resize.size, (list, tuple)) else [self.resize.size]
        if len(sizes) == 1 and sizes[0]:
            sizes = [int(sizes[0] * side / min(width, height)) for side in (height, width)]
        rows, columns = self.crop.size
        mode = self.resize.interpolation
        mode = mode if isinstance(mode, int) else pil_modes_mapping[InterpolationMode(mode)]
        filtered = mode != Image.Resampling.NEAREST  # that may take another pixel, since Pillow rounds the box
        fits = filtered and len(sizes) == 2 and sizes[0] >= rows and sizes[1] >= columns
        fits = fits and self.resize.max_size is None
        if not fits or getattr(image, "format", None) != "JPEG" or image.mode != "RGB" or not image.tile:
            return self.crop(self.resize(image))
        box = []  # in pixels of the file: left and right, top and bottom
        for whole, new, kept in ((width, sizes[1], columns), (height, sizes[0], rows)):
            first, scale = round((new - kept) / 2), whole / new
            margin = 3 * max(1, scale) + 1  # no filter of Pillow reaches farther
            begin, end = first * scale, (first + kept) * scale
            box.append((begin, end, max(0, int(begin - margin)), min(whole, math.ceil(end + margin))))
        (left, right, x, x_end), (top, bottom, y, y_end) = box
        image.fp.seek(0)
        try:
            pixels = pipebench.decode_and_crop(image.fp.read(), (x, y, x_end - x, y_end - y))
        except SampleError:  # the data is damaged: Pillow may read it
            return self.crop(self.resize(image))
        return Image.fromarray(pixels.numpy()).resize(
            (columns, rows), mode, box=(left - x, top - y, right - x, bottom - y)
        )
