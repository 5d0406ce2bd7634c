"""The Resize before flips, rotations, changes of colour and ToTensor, which then work on small images.

Resizing takes weighted means of neighbouring pixels. What moves each pixel with its neighbours, or changes its colour
by nearly the same line as theirs, gives about the same before and after. So not what has a size in pixels, as a crop
or a blur, what jumps, as Posterize, or what looks at the darkest pixel, as Autocontrast. Some pixels differ, so the
weights of the trial are worth nothing, and the difference of some samples is measured and shown.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from pipebench.remedies import earlier
from pipebench.remedies.earlier import CONVERSIONS, FLIPS, LEAST_SHARE, Steps
from pipebench.remedies.seen import Seen, share_of
from pipebench.results.advice import Change, Finding
from pipebench.watch.record.patches import Patches
from pipebench.watch.trial import chains
from pipebench.watch.trial.edits import Edit, Refused

PLACE = 8
TITLE = "Resize first"
# Of the range of the values, on average. The photographs of `datasets/`, at 112 pixels, differ by up to 1.6 % for a
# bilinear rotation, 2.5 % for one by nearest pixels, 3.6 % for a RandomAffine, and by up to 16 % if it distorts them.
TOLERANCE = 0.05
HOW = "Move the Resize of the Compose in front of its flips, rotations, changes of colour and ToTensor."
_RESIZE = "Resize"
_TURNS = ("RandomRotation", "RandomAffine")  # about the centre, and only if width and height shrink alike
SAME_WHEN_SMALL = (
    *FLIPS, *_TURNS, "ColorJitter", "Grayscale", "RandomGrayscale", "RandomInvert", "RandomChannelPermutation",
    "RandomPhotometricDistort", "RGB",
)  # fmt: skip


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    if tried or not seen.discards or not seen.workers or not share_of(seen, "transform", _RESIZE):
        return None
    known, steps = _in_source(seen)
    share = _share(seen, known, steps)
    return earlier.change("resize_first", TITLE, share, steps, HOW) if share >= LEAST_SHARE else None


def share_before(seen: Seen) -> float:
    """The share of the workers' time in what could come after the Resize: at most so much where no list shows it."""
    return _share(seen, *_in_source(seen))


def _in_source(seen: Seen) -> tuple[bool, Steps | None]:
    return earlier.in_source(seen, place_of, (_RESIZE, *SAME_WHEN_SMALL))


def _share(seen: Seen, known: bool, steps: Steps | None) -> float:
    names = steps.names if steps is not None else [] if known else [*SAME_WHEN_SMALL]
    return earlier.share(seen, names, _RESIZE)


def place_of(names: Sequence[str]) -> slice | None:
    """Where transforms with these names end with the only Resize, and begin with what may as well stand behind it."""
    if names.count(_RESIZE) != 1:
        return None
    end = names.index(_RESIZE)
    begin = earlier.begin_of(names, end, (*SAME_WHEN_SMALL, *CONVERSIONS))
    while begin < end and names[begin] in (*chains.CONVERSIONS, chains.LAST):  # they alone are not worth a trial
        begin += 1
    return slice(begin, end + 1) if begin < end else None


class _ResizeFirst(Edit):
    def in_worker(self, fetcher: Any, patches: Patches) -> None:
        chain = chains.only_chain(fetcher.dataset, place_of)
        if any(getattr(one, "expand", False) or getattr(one, "center", None) is not None for one in chain.steps):
            raise Refused("no-such-transforms")
        turns = any(type(one).__name__ in _TURNS for one in chain.steps)
        refuses = functools.partial(_distorts, chain.steps[-1].size) if turns else earlier.never
        earlier.move_in_worker(fetcher, patches, chain, refuses, TOLERANCE)


def _distorts(size: Any, height: int, width: int) -> str:
    """Not "" if an image does not keep its shape, but for a pixel, when it is resized to this size."""
    sides = size if isinstance(size, (list, tuple)) else [size]
    return "" if len(sides) == 1 or abs(width * sides[0] / height - sides[1]) <= 1 else "no-such-transforms"


edit = _ResizeFirst
