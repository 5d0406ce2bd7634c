"""Copies of tensors that are small views of large memory, before they cross from the workers.

torch puts all the memory that a tensor views into shared memory, so a window of a recording brings all of it. A copy
has the same values. Memory that is shared already crosses for nothing, and tensors of a batch that overlap stay as they
are, because a loop may change one through the other.
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable, Sequence
from typing import Any

from pipebench.remedies.as_tensors import exchanged
from pipebench.remedies.seen import WORTH, Seen, hand_off_share
from pipebench.results.advice import Change, Finding
from pipebench.watch.record.patches import Patches
from pipebench.watch.trial.edits import Edit, Refused

PLACE = 2
TITLE = "copies in place of views"
COST = "memory of its own for each"
HOW = (
    "Let samples hold copies of what they view: x[begin:end].clone(). With a view, all the",
    "memory of x crosses from the worker.",
)
_TIMES = 2  # what a tensor views is so many times as large as itself, or larger
_TRIES = 8  # batches: if none of them has such a view, the change does nothing


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    found = seen.watched.hand_off
    if tried or not seen.workers or found is None or not found.views or hand_off_share(seen) < WORTH - 1:
        return None
    if not seen.room.has_descriptors(seen.workers, seen.prefetch_factor, found.tensors_per_batch):
        return None
    return Change(
        "copies", {}, COST, predicted=seen.without_waits, title=TITLE, edits={"copies": {}}, how=HOW,
        at=seen.at_collate, asked_for=seen.slow_hand_off, group="collate",
    )  # fmt: skip


class _Copies(Edit):
    def in_worker(self, fetcher: Any, patches: Patches) -> None:
        fetcher.collate_fn = _Copying(fetcher.collate_fn)


edit = _Copies


class _Copying:
    """A collate function whose batches hold copies. Raises `Refused` if its first batches have nothing to copy."""

    def __init__(self, collate: Callable[[Any], Any]) -> None:
        self.collate, self.copied, self.left = collate, 0, _TRIES

    def __call__(self, samples: Any) -> Any:
        batch = self.collate(samples)
        views: list[Any] = []
        exchanged(batch, {}, lambda one: views.append(one) if _is_view(one) else None)
        apart = {id(one) for one in _apart(views)}
        self.copied += len(apart)
        if not self.copied:
            self.left -= 1
            if not self.left:
                raise Refused("no-views")
        return exchanged(batch, {}, lambda one: one.clone() if id(one) in apart else None) if apart else batch


def _is_view(found: Any) -> bool:
    torch: Any = sys.modules["torch"]
    kind = type(found)
    if kind is not torch.Tensor and not kind.__module__.startswith("torchvision.tv_tensors"):
        return False
    if found.layout != torch.strided or found.requires_grad or found.device.type != "cpu":
        return False
    memory = found.untyped_storage()
    return not memory.is_shared() and memory.nbytes() >= _TIMES * max(1, found.nbytes)


def _apart(views: Sequence[Any]) -> list[Any]:
    """Those whose memory no other one of them has a part of."""
    placed = sorted(
        ((one.untyped_storage()._cdata, *_stretch(one), one) for one in views), key=lambda placed: placed[:3]
    )
    furthest = itertools.accumulate(placed, functools.partial(max, key=lambda placed: (placed[0], placed[2])))
    overlap = {
        id(one)
        for (memory, _, end, first), (other, begin, _, second) in zip(furthest, placed[1:], strict=False)
        if memory == other and begin < end
        for one in (first, second)
    }
    return [one for one in views if id(one) not in overlap]


def _stretch(one: Any) -> tuple[int, int]:
    """The first and the last byte of its memory, and one more."""
    begin = one.storage_offset() * one.element_size()
    last = sum((size - 1) * stride for size, stride in zip(one.shape, one.stride(), strict=True))
    return begin, begin + (last + 1) * one.element_size()
