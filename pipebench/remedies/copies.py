"""Copies of tensors that are small views of large memory, before they cross from the workers.

torch puts the whole memory that a tensor views into shared memory, so a window of a recording brings all of it. A copy
has the same values. While this is tried, tensors that viewed the same memory no longer do.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from pipebench.remedies.as_tensors import exchanged
from pipebench.remedies.seen import Seen
from pipebench.results.advice import Change, Finding, Place
from pipebench.watch.record.own_code import owner
from pipebench.watch.record.patches import Patches
from pipebench.watch.trial.edits import Edit, Refused

PLACE = 2
TITLE = "copies in place of views"
HOW = (
    "Let samples hold copies of what they view: x[begin:end].clone(), or in NumPy",
    "x[begin:end].copy(). All of x crosses with a view of it.",
)
_TIMES = 2  # what a tensor views is so many times as large as itself, or larger
_VARIES = 0.15  # between runs: as measured for a hand-off of arrays (docs/figures/advice.md)


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    found = seen.watched.hand_off
    if tried or not seen.workers or found is None or not found.views:
        return None
    collate = seen.made.collate if seen.made else None
    at = Place(*collate) if collate and not owner(collate.file) else None
    return Change(
        "copies", {}, "none", predicted=seen.without_waits, title=TITLE, edits={"copies": {}}, how=HOW, at=at,
        asked_for=True, varies=_VARIES, group="collate",
    )  # fmt: skip


class _Copies(Edit):
    def in_worker(self, fetcher: Any, patches: Patches) -> None:
        fetcher.collate_fn = _Copying(fetcher.collate_fn)


edit = _Copies


class _Copying:
    """A collate function whose batches hold copies. Raises `Refused` if the first one has nothing to copy."""

    def __init__(self, collate: Callable[[Any], Any]) -> None:
        self.collate, self.copied = collate, 0

    def __call__(self, samples: Any) -> Any:
        batch = exchanged(self.collate(samples), {}, self._copy)
        if not self.copied:
            raise Refused("no-views")
        return batch

    def _copy(self, found: Any) -> Any:
        torch: Any = sys.modules["torch"]
        if type(found) is not torch.Tensor or found.layout != torch.strided or found.requires_grad:
            return None
        if found.untyped_storage().nbytes() < _TIMES * max(1, found.nbytes):
            return None
        self.copied += 1
        return found.clone()
