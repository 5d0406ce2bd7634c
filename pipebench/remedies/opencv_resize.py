"""OpenCV's resize in place of Pillow's. Its pixels are others, so it gives something up, and is never the first advice.

It needs the user's agreement that the weights are worth nothing. OpenCV's area filter weighs all pixels alike that one
new pixel covers; Pillow's triangle reaches twice as far. The difference of the samples is told.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Sequence
from typing import Any

from pipebench.remedies.seen import Seen, share_of, without_share
from pipebench.remedies.source import call_of, steps_of
from pipebench.results.advice import Change, Finding, Rewrite
from pipebench.watch.record.patches import Patches
from pipebench.watch.trial import chains
from pipebench.watch.trial.compared import Comparing, compare_first
from pipebench.watch.trial.edits import Edit
from pipebench.watch.trial.pictures import checked, counting

PLACE = 8
TITLE = "Resize by OpenCV"
GIVES_UP = "Pillow's filter: other pixels"
LEAST_SHARE = 0.15  # of the time of the workers
HOW = ("Put the Resize into ResizedByOpenCV(...). `--patch FILE` writes that class, too.",)
_RESIZE = "Resize"


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    share = share_of(seen, "transform", _RESIZE)
    if tried or not seen.discards or not seen.workers or not seen.waits or share < LEAST_SHARE:
        return None
    if importlib.util.find_spec("cv2") is None:
        return None
    return Change(
        "opencv_resize", {}, GIVES_UP, predicted=min(seen.most, without_share(share)), title=TITLE,
        edits={"opencv_resize": {}}, how=HOW, at=call_of(seen, _RESIZE), discards=True, rewrites=_rewrites(seen),
        gives_up=True,
    )  # fmt: skip


def _rewrites(seen: Seen) -> tuple[Rewrite, ...]:
    """The Resize within our class; nothing if there is not exactly one in a list."""
    if (found := steps_of(seen, _RESIZE, place_of)) is None:
        return ()
    source, (resize,) = found
    return (*source.wrapped(resize, resize, "ResizedByOpenCV("), source.defined(ResizedByOpenCV, resize))


def place_of(names: Sequence[str]) -> slice | None:
    return slice(names.index(_RESIZE), names.index(_RESIZE) + 1) if names.count(_RESIZE) == 1 else None


class _ByOpenCV(Edit):
    def in_worker(self, fetcher: Any, patches: Patches) -> None:
        chain = chains.only_chain(fetcher.dataset, place_of)
        made: list[int] = []
        step: Any = ResizedByOpenCV

        def change() -> None:
            chain.replace(counting(step(*chain.steps), made, _is_pillows), patches)

        compare_first(fetcher, change, Comparing(None), functools.partial(checked, made, "no-such-resize"))


edit = _ByOpenCV


def _is_pillows(image: Any) -> bool:
    return hasattr(image, "getbands")


class ResizedByOpenCV:
    """Close to this Resize of an image, by the area filter of OpenCV. The pixels are not those of Pillow."""

    def __init__(self, resize):  # type: ignore[no-untyped-def]  # the user gets this text
        self.resize = resize

    def __call__(self, image):  # type: ignore[no-untyped-def]
        import cv2
        import numpy as np
        from PIL import Image

        sizes = self.resize.size if isinstance(self.resize.size, (list, tuple)) else [self.resize.size]
        if not isinstance(image, Image.Image) or self.resize.max_size is not None or not sizes[0]:
            return self.resize(image)
        if len(sizes) == 1:
            sizes = [int(sizes[0] * side / min(image.size)) for side in image.size[::-1]]
        cv2.setNumThreads(1)  # workers share the cores
        return Image.fromarray(cv2.resize(np.asarray(image), (sizes[1], sizes[0]), interpolation=cv2.INTER_AREA))
