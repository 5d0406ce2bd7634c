"""A crop before flips, changes of colour, ToTensor and Normalize, which then work on its pixels only.

What changes each pixel by itself gives the same before and after a crop, and flips choose another crop of the same
kind. A blur differs at the edges of the crop, and what looks at the mean of an image, as the contrast of ColorJitter,
sees that of the crop. Where the crop is resized, too, what jumps at a value (RandomSolarize, RandomPosterize) or has a
size in pixels (GaussianBlur) does not give the same. So the weights of the trial are worth nothing, and the difference
of some samples is measured and shown.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from pipebench.remedies import earlier
from pipebench.remedies.earlier import CONVERSIONS, FLIPS, LEAST_SHARE
from pipebench.remedies.resize_first import TOLERANCE
from pipebench.remedies.seen import Seen
from pipebench.remedies.source import called
from pipebench.results.advice import Change, Finding
from pipebench.watch.record.patches import Patches
from pipebench.watch.trial import chains
from pipebench.watch.trial.edits import Edit, Refused

PLACE = 8
TITLE = "Crop first"
_RESIZED = "RandomResizedCrop"
_CROPS = ("RandomCrop", "CenterCrop", _RESIZED)
_BY_PIXEL = (
    *FLIPS, *CONVERSIONS, "ColorJitter", "Grayscale", "RandomGrayscale", "RandomInvert", "RandomChannelPermutation",
    "RandomPhotometricDistort", "RGB",
)  # fmt: skip
_PADDING = {"padding", "pad_if_needed"}  # its colour would be changed, too
_IN_PIXELS = ("RandomSolarize", "RandomPosterize", "GaussianBlur", "RandomAdjustSharpness")


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    if tried or not seen.discards or not seen.workers:
        return None
    _, steps = earlier.in_source(seen, place_of, (*_CROPS, *_BY_PIXEL))
    if steps is None or _PADDING & {one.arg for one in steps.keywords}:
        return None
    share = earlier.share(seen, steps.names, _RESIZED if called(steps.smaller) == _RESIZED else "")
    return earlier.change("crop_first", TITLE, share, steps) if share >= LEAST_SHARE else None


def place_of(names: Sequence[str]) -> slice | None:
    """Where transforms with these names end with the only crop, and begin with what may as well stand behind it."""
    crops = [place for place, one in enumerate(names) if one in _CROPS]
    if len(crops) != 1:
        return None
    end = crops[0]
    same = _BY_PIXEL if names[end] == _RESIZED else (*_BY_PIXEL, *_IN_PIXELS)
    begin = earlier.begin_of(names, end, same)
    return slice(begin, end + 1) if begin < end else None


class _CropFirst(Edit):
    def in_worker(self, fetcher: Any, patches: Patches) -> None:
        chain = chains.only_chain(fetcher.dataset, place_of)
        crop = chain.steps[-1]
        if getattr(crop, "padding", None) or getattr(crop, "pad_if_needed", False):
            raise Refused("pads")
        resized = type(crop).__name__ == _RESIZED
        refuses = earlier.never if resized else functools.partial(_pads, crop.size)
        earlier.move_in_worker(fetcher, patches, chain, refuses, TOLERANCE)


def _pads(size: Sequence[int], height: int, width: int) -> str:
    """Not "" if an image is smaller than the crop: CenterCrop pads it."""
    return "" if height >= size[0] and width >= size[-1] else "pads"


edit = _CropFirst
