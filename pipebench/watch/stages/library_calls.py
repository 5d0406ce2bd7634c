"""Lists the functions where libraries spend their time. Each is a stage of its own, whatever calls it."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from types import ModuleType
from typing import Any

from pipebench.watch.record.exclusive_time import local, stages, timed
from pipebench.watch.record.media import MEDIA
from pipebench.watch.record.patches import Patches, is_unseen, unseen
from pipebench.watch.stages import iterables, media_calls, remote_reads, transforms, webdataset
from pipebench.watch.stages.shrunk import noted

_DECODERS = ("image", "jpeg", "png", "webp", "gif", "avif", "heic")
# module -> (function, kind, whether it also reads the file)
FUNCTIONS: dict[str, tuple[tuple[str, str, bool], ...]] = {
    "torchvision.io.image": (
        ("read_file", "read", False),
        *((f"decode_{name}", "decode", False) for name in _DECODERS),
    ),
    "torchcodec.decoders._image_decoders": tuple((f"decode_{name}", "decode", False) for name in _DECODERS),
    "cv2": (("imread", "decode", True), ("imdecode", "decode", False)),
    "simplejpeg": (("decode_jpeg", "decode", False),),
    "simplejpeg._jpeg": (("decode_jpeg", "decode", False),),
    "turbojpeg": (("decompress", "decode", False),),
}
# Timed as rows of their own where the user's own code calls them. Inside a transform they are a part of its row.
_CALLED = {
    "cv2": (
        "resize", "cvtColor", "warpAffine", "warpPerspective", "remap", "GaussianBlur", "copyMakeBorder", "flip", "LUT",
    ),
    "PIL.Image": ("Image.convert", "Image.resize"),
}  # fmt: skip
# module -> image class that decodes in `load`. Some formats read in their own `load` before they call ImageFile's.
LAZY = {
    "PIL.ImageFile": "ImageFile",
    "PIL.WebPImagePlugin": "WebPImageFile",
    "PIL.TiffImagePlugin": "TiffImageFile",
    "PIL.AvifImagePlugin": "AvifImageFile",
    "PIL.Jpeg2KImagePlugin": "Jpeg2KImageFile",
}
LIBRARIES: dict[str, Callable[[Patches, Any], None]] = {
    "torchvision.transforms.transforms": transforms.watch_v1,
    "torchvision.transforms.v2._container": transforms.watch_v2,
    "albumentations.core.transforms_interface": transforms.watch_entries,
    "albumentations.core.composition": transforms.watch_containers,
    "webdataset.pipeline": webdataset.watch_pipeline,
    "datasets.iterable_dataset": iterables.watch_examples,
    **remote_reads.WATCHED,
}
_PILLOW = "PIL.Image"
MODULES = frozenset({_PILLOW, *FUNCTIONS, *LAZY, *LIBRARIES, *MEDIA})


def watch_module(patches: Patches, module: ModuleType) -> None:
    """Patches the listed functions of one imported module."""
    name = module.__name__
    for function, kind, reads in FUNCTIONS.get(name, ()):
        plain = getattr(module, function, None)
        if callable(plain) and not is_unseen(plain):
            own = noted(name, function, timed(plain, stages.number(kind, function, reads)))
            patches.replace(module, function, own)
    for function in _CALLED.get(name, ()):
        _watch_called(patches, module, function)
    if name == _PILLOW:
        _watch_open(patches, module)
    if name in LAZY:
        _watch_load(patches, getattr(module, LAZY[name]))
    if name in MEDIA:
        media_calls.watch_media(patches, module)
    if name in LIBRARIES:
        LIBRARIES[name](patches, module)


def _watch_called(patches: Patches, module: Any, path: str) -> None:
    """Times a function or a method by its name, but not where it works for a transform that has a row."""
    holder, _, name = path.rpartition(".")
    owner = getattr(module, holder, None) if holder else module
    plain = getattr(owner, name, None)
    if not callable(plain) or is_unseen(plain):
        return
    own = timed(plain, stages.number("transform", path if holder else f"{module.__name__}.{path}"))

    @unseen
    @functools.wraps(plain)
    def watched(*args: Any, **kwargs: Any) -> Any:
        timer = local.timer
        if timer is None or stages.kind(timer.current) == "transform":
            return plain(*args, **kwargs)
        return own(*args, **kwargs)

    patches.replace(owner, name, noted(module.__name__, path, watched))


def _watch_open(patches: Patches, module: Any) -> None:
    """Times Pillow's `Image.open`, which finds the format: it looks at the head of the file, and at no pixels.

    With bytes in memory nothing is read from storage, so the kind is then "decode". A class of somebody's own may read
    from anywhere.
    """
    plain = module.open
    if is_unseen(plain):
        return
    read = timed(plain, stages.number("read", "Image.open"))
    decode = timed(plain, stages.number("decode", "Image.open"))

    @unseen
    @functools.wraps(plain)
    def open(*args: Any, **kwargs: Any) -> Any:
        file = args[0] if args else kwargs.get("fp")
        return (decode if type(file) is io.BytesIO else read)(*args, **kwargs)

    patches.replace(module, "open", open)


def _has_all_bytes(image: Any) -> bool:
    """Whether this is a WebP of which a frame is still to be decoded. It reads its file when it is opened.

    It has no tile before it has decoded: https://github.com/python-pillow/Pillow/blob/main/src/PIL/WebPImagePlugin.py.
    """
    loaded = getattr(image, "_WebPImageFile__loaded", None)
    return loaded is not None and loaded != getattr(image, "_WebPImageFile__logical_frame", loaded)


def _watch_load(patches: Patches, kind: Any) -> None:
    """Times Pillow's lazy decode. Pillow decodes at the first access to pixels, often inside a transform.

    An image that was opened from a file is also read here; one opened from bytes in memory is only decoded.
    """
    if "load" not in vars(kind):
        return
    plain = kind.load
    decode = stages.number("decode", f"{kind.__name__}.load")
    read_and_decode = stages.number("decode", f"{kind.__name__}.load", True)

    @unseen
    @functools.wraps(plain)
    def load(self: Any) -> Any:
        timer = local.timer
        if timer is None:
            return plain(self)
        whole = not self.tile and _has_all_bytes(self)
        if not (self.tile or whole):
            return plain(self)
        file = self.fp
        timer.file = self.filename or getattr(file, "name", None)
        stage = decode if whole or isinstance(file, io.BytesIO) else read_and_decode
        before = timer.switch(stage)
        try:
            return plain(self)
        finally:
            timer.switch(before)

    patches.replace(kind, "load", load)
