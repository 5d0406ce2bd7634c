"""A part of a Compose that another step can replace, such as the one that makes normalised floats of bytes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pipebench.watch.record.patches import Patches
from pipebench.watch.stages.finding_transforms import transform_lists
from pipebench.watch.trial.edits import Refused

FIRST = ("ToTensor", "ToImage", "PILToTensor")
CONVERSIONS = ("ToDtype", "ConvertImageDtype")
LAST = "Normalize"
TO_FLOAT = "to-float"  # the group of remedies that replace these
_MODES = ("RGB", "L", "RGBA")  # of Pillow: one byte for each channel


@dataclass(frozen=True)
class Chain:
    """The `steps` that stand in the list `entries` from `begin` on."""

    entries: list[Any]
    begin: int
    steps: tuple[Any, ...]

    @property
    def last(self) -> bool:
        """Whether nothing comes after it."""
        return self.begin + len(self.steps) == len(self.entries)

    def replace(self, new: Any, patches: Patches) -> None:
        """Puts `new` in place of the steps. Another edit may have moved them. Raises `Refused` if it replaced them."""
        old = list(self.entries)
        begin = next((place for place, one in enumerate(old) if one is self.steps[0]), None)
        if begin is None:
            raise Refused("no-such-transforms")
        self.entries[begin : begin + len(self.steps)] = [new]
        patches.on_undo(lambda: self.entries.__setitem__(slice(None), old))


def only_chain(dataset: Any, place: Callable[[Sequence[str]], slice | None] | None = None) -> Chain:
    """The one chain in the transforms of `dataset`. Raises `Refused` if there is none, or more than one.

    `place` finds it among the names of torchvision's transforms; by default, `place_of`.
    """
    find = place or place_of
    places = [(entries, find([_name(one) for one in entries])) for entries in transform_lists(dataset)]
    found = [Chain(entries, one.start, tuple(entries[one])) for entries, one in places if one is not None]
    if len(found) != 1:
        raise Refused("no-such-transforms")
    return found[0]


def place_of(names: Sequence[str]) -> slice | None:
    """Where transforms with these names form a chain."""
    if LAST not in names:
        return None
    end = begin = names.index(LAST)
    while begin and names[begin - 1] in CONVERSIONS:
        begin -= 1
    return slice(begin - 1, end + 1) if begin and names[begin - 1] in FIRST else None


def _name(transform: Any) -> str:
    kind = type(transform)
    return kind.__name__ if kind.__module__.startswith("torchvision.transforms") else ""


def to_bytes(first: Any, image: Any) -> Any:
    """The first step, without its conversion to float: a tensor of bytes, channels first. Raises `Refused`."""
    torch: Any = sys.modules["torch"]
    if getattr(image, "mode", "RGB") not in _MODES:
        raise Refused("not-bytes")
    if _name(first) != "ToTensor":
        found = first(image)
    elif hasattr(image, "getbands"):
        found = sys.modules["torchvision.transforms.functional"].pil_to_tensor(image)
    else:
        pixels = torch.from_numpy(image) if getattr(image, "dtype", None) == "uint8" else image
        if not isinstance(pixels, torch.Tensor) or pixels.dtype != torch.uint8 or pixels.ndim not in (2, 3):
            raise Refused("not-bytes")
        found = (pixels[None] if pixels.ndim == 2 else pixels.permute(2, 0, 1)).contiguous()
    if not isinstance(found, torch.Tensor) or found.dtype != torch.uint8:
        raise Refused("not-bytes")
    return found


def from_bytes(steps: Sequence[Any], found: Any) -> Any:
    """What the whole chain makes of the bytes of one image, or of a batch of them. Raises `Refused`."""
    torch: Any = sys.modules["torch"]
    found = found.as_subclass(torch.Tensor)  # a batch has no other class either
    if _name(steps[0]) == "ToTensor":
        found = found.to(torch.get_default_dtype()).div(255)
    for step in steps[1:]:
        found = step(found)
    if not found.is_floating_point():
        raise Refused("not-bytes")
    return found
