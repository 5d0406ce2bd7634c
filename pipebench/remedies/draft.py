"""Pillow decodes JPEGs at half, a quarter or an eighth of their size, where the transforms make them that small.

The decoder then skips most of its work. The pixels differ a little, so the weights of the trial are worth nothing, and
the difference of some samples is measured and shown.
"""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from pipebench.remedies.resize_first import SAME_WHEN_SMALL, share_before
from pipebench.remedies.seen import Seen, share_of, were_free
from pipebench.remedies.source import call_of, calls_of
from pipebench.results.advice import Change, Finding, Rewrite
from pipebench.watch.record.patches import Patches, unseen
from pipebench.watch.stages.finding_transforms import transform_lists
from pipebench.watch.trial.compared import Comparing, compare_first
from pipebench.watch.trial.edits import Edit, Refused
from pipebench.watch.trial.pictures import checked

PLACE = 8
TITLE = "decoding at reduced size"
COST = "other pixels"
LEAST_SHARE = 0.15  # of the time of the workers
# Of the range of the values, on average. What differs by more is another part of the picture: something besides the
# Resize depends on the size, such as a crop by labels.
TOLERANCE = 0.15
HOW = ("After Image.open(...): image.draft(image.mode, (S, S)), with the size of the Resize.",)
_KEEPS_SIZE = ("ToImage", "PILToTensor", "ToTensor", *SAME_WHEN_SMALL)  # what may stand before the Resize


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    decode = share_of(seen, "decode", "ImageFile.load")
    resize = share_of(seen, "transform", "Resize")
    if tried or not seen.discards or not seen.workers or not resize or decode < LEAST_SHARE:
        return None
    return Change(
        "draft", {}, COST, predicted=were_free(decode + resize + share_before(seen)), title=TITLE,
        edits={"draft": {}}, how=HOW, at=call_of(seen, "open"), discards=True, rewrites=_rewrites(seen), group="decode",
    )  # fmt: skip


def _rewrites(seen: Seen) -> tuple[Rewrite, ...]:
    """`Image.open(...)` within `drafted(...)`, if there is one of it, and one Resize to a number that stands there."""
    opens = [(source, one) for source, one in calls_of(seen, "open") if ast.unparse(one.func).endswith("Image.open")]
    resizes = [one for _, one in calls_of(seen, "Resize")]
    if len(opens) != 1 or len(resizes) != 1 or not resizes[0].args:
        return ()
    size = getattr(resizes[0].args[0], "value", None)
    if type(size) is not int:
        return ()
    source, opened = opens[0]
    return (*source.wrapped(opened, opened, "drafted(", f", ({size}, {size}))"), source.defined(drafted, opened))


def drafted(image, size):  # type: ignore[no-untyped-def]  # the user gets this text
    """The image; a JPEG at a half, a quarter or an eighth of its size, if it is then not below `size`."""
    if image.format == "JPEG":
        image.draft(image.mode, size)
    return image


class _Draft(Edit):
    def in_worker(self, fetcher: Any, patches: Patches) -> None:
        sizes = [size for entries in transform_lists(fetcher.dataset) for size in _first_resize(entries)]
        pillow: Any = sys.modules.get("PIL.Image")
        if len(set(sizes)) != 1 or pillow is None:
            raise Refused("no-such-resize")
        made: list[int] = []

        def change() -> None:
            patches.replace(pillow, "open", _drafting(pillow.open, sizes[0], made))
            patches.rebind()
            patches.rebind_held()

        how = Comparing(None, mean_share=TOLERANCE)
        compare_first(fetcher, change, how, functools.partial(checked, made, "not-smaller"))


edit = _Draft


def _first_resize(entries: list[Any]) -> Iterator[tuple[int, int]]:
    """Width and height that the list's first change of size gives at least, if that is a Resize."""
    for one in entries:
        name = type(one).__name__
        if name == "Resize":
            size = one.size if isinstance(one.size, (list, tuple)) else [one.size]
            if size and all(isinstance(side, int) for side in size):
                yield int(size[-1]), int(size[0])
            return
        if name not in _KEEPS_SIZE:
            return


def _drafting(plain: Any, size: tuple[int, int], made: list[int]) -> Any:
    """`Image.open` that asks for images of `size` at least. `made` gets 1 as soon as one is smaller for it."""

    @unseen
    @functools.wraps(plain)
    def open(*args: Any, **kwargs: Any) -> Any:
        image = plain(*args, **kwargs)
        before = image.size
        found = drafted(image, size)  # type: ignore[no-untyped-call]
        if found.size != before and not made:
            made.append(1)
        return found

    return open
