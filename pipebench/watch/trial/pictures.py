"""Pillow's JPEGs that nobody has decoded yet, of which another function may make RGB; and steps that take images."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sized
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


def counting(step: Any, made: list[int], wanted: Callable[[Any], bool]) -> Callable[..., Any]:
    """`step`, to be put in place of a chain. `made` gets 1 as soon as it gets an image that is `wanted`."""
    return _Counting(step, made, wanted)


def checked(made: Sized, reason: str) -> list[Any]:
    """Raises `Refused` for this reason if the change has done nothing: `made` is empty."""
    if not made:
        raise Refused(reason)
    return []


class _Counting:
    """A step of one image. A class, because steps of a Compose are told by the names of their classes."""

    def __init__(self, step: Any, made: list[int], wanted: Callable[[Any], bool]) -> None:
        self.step, self.made, self.wanted = step, made, wanted

    def __call__(self, *images: Any) -> Any:
        if len(images) != 1:
            raise Refused("no-such-transforms")
        if not self.made and self.wanted(images[0]):
            self.made.append(1)
        return self.step(images[0])
