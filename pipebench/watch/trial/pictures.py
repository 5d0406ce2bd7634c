"""Pillow's JPEGs that nobody has decoded yet: another function may make RGB of them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from pipebench.watch.record.patches import Patches, unseen
from pipebench.watch.trial.edits import Refused


def replace_convert(patches: Patches, instead: Callable[[Any], Any]) -> None:
    """Lets `instead(image)` do the work of `image.convert("RGB")` where `is_undecoded(image)`.

    Raises `Refused` if Pillow has opened no JPEG in this process.
    """
    plugin: Any = sys.modules.get("PIL.JpegImagePlugin")
    if plugin is None:
        raise Refused("no-jpegs")
    plain = plugin.JpegImageFile.convert

    @unseen
    @functools.wraps(plain)
    def convert(self: Any, mode: Any = None, *args: Any, **kwargs: Any) -> Any:
        if mode == "RGB" and not args and not kwargs and is_undecoded(self):
            return instead(self)
        return plain(self, mode, *args, **kwargs)

    patches.replace(plugin.JpegImageFile, "convert", convert)


def is_undecoded(image: Any) -> bool:
    """Whether this is a JPEG in RGB whose pixels nobody has needed yet."""
    return getattr(image, "format", None) == "JPEG" and image.mode == "RGB" and bool(image.tile)
