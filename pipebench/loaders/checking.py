"""What a loader gives is checked before its figures count: form, every sample once in a pass, pixels, order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipebench.errors import SampleError
from pipebench.loaders.kind import Batch, Plan
from pipebench.loaders.recipe import Pixels, expected
from pipebench.results.loaders import FILTERS, Order
from pipebench.stages import agreement

LOOKED_AT = 32  # samples of the first pass whose pixels are compared
_BLOCK = 8  # pixels a side of the blocks whose means are compared
_TELLS = 0.5  # levels: where both references are nearer to each other, the data cannot tell the tasks apart
# A random order moves a sample by a third of the data set on average; a buffer of a tenth of it, by about a tenth.
_WHOLE = 0.25


class Refused(Exception):
    """What of a loader's output is wrong."""


class Looked:
    """Takes the batches of a pass: checks their form, notes the order, and keeps some samples for their pixels."""

    def __init__(self, plan: Plan, keep: int = 0) -> None:
        self._plan, self._every = plan, max(1, len(plan.paths) // keep) if keep else 0
        self.order: list[int] = []
        self._kept: list[tuple[int, Any, Pixels]] = []

    def __call__(self, batch: Batch) -> None:
        images, indices, boxes = (np.asarray(one) for one in batch)
        count = len(indices)
        wanted = (count, 3, self._plan.side, self._plan.side)
        if images.shape != wanted or images.dtype != np.uint8:
            raise Refused(f"a batch is {images.dtype} {images.shape}, not uint8 {wanted}")
        if not images.flags.c_contiguous:
            raise Refused(f"a batch is a view with strides {images.strides}: it hides a copy, so it is not contiguous")
        if boxes.shape != (count, 5):
            raise Refused(f"the boxes of a batch are {boxes.shape}, not {(count, 5)}")
        if not 0 < count <= self._plan.batch_size:
            raise Refused(f"a batch has {count} samples, not {self._plan.batch_size}")
        self.order += indices.reshape(-1).tolist()
        if self._every:
            place = len(self._kept) % count
            if len(self.order) >= len(self._kept) * self._every:
                self._kept.append((int(indices.reshape(-1)[place]), boxes[place].copy(), images[place].copy()))

    def end(self) -> None:
        """At the end of the pass: every sample came once. Refused, if not."""
        counts = Counter(self.order)
        twice = sum(one > 1 for one in counts.values())
        missing = len(set(range(len(self._plan.paths))) - counts.keys())
        strange = sum(not 0 <= one < len(self._plan.paths) for one in counts)
        if twice or missing or strange:
            raise Refused(
                f"of {len(self._plan.paths)} samples, a pass lacks {missing}, has {twice} more than once, "
                f"and {strange} that are none of them"
            )

    def pixels(self) -> None:
        """Refused, if the kept samples are not those crops of their files, or are of the other task."""
        own: list[float] = []
        other: list[float] = []
        apart: list[float] = []
        for index, box, image in self._kept:
            data = Path(self._plan.paths[index]).read_bytes()
            ours, theirs = (expected(data, box, one, self._plan.side) for one in _own_first(self._plan))
            _agrees(index, image, ours)
            own.append(_mean(image, ours))
            other.append(_mean(image, theirs))
            apart.append(_mean(ours, theirs))
        if apart and np.mean(apart) > _TELLS and np.mean(own) >= np.mean(other):
            raise Refused(
                f"its pixels are not those of the task ({self._plan.filter}): {np.mean(own):.2f} levels from it, "
                f"{np.mean(other):.2f} from the other one"
            )


def _own_first(plan: Plan) -> list[Any]:
    return sorted(FILTERS, key=lambda one: one != plan.filter)


def _agrees(index: int, image: Pixels, reference: Pixels) -> None:
    ours, theirs = (one.transpose(1, 2, 0) for one in (image, reference))
    try:
        coarse, expected_coarse = (agreement.block_means(one, 4) for one in (ours, theirs))
        agreement.mean(coarse, expected_coarse, agreement.RESIZED_MEAN)
        agreement.blocks(ours, theirs, _BLOCK, agreement.RESIZED + agreement.MOVED)
    except SampleError as error:
        raise Refused(f"sample {index} has wrong pixels: {error.message}") from error


def _mean(ours: Pixels, theirs: Pixels) -> float:
    return float(np.abs(ours.astype(np.int16) - theirs.astype(np.int16)).mean())


def shuffled(order: Sequence[int]) -> Order:
    """How far a pass mixes its samples: over the whole data set, in a buffer, or not at all."""
    if list(order) == sorted(order):
        return "none"
    moved = np.abs(np.asarray(order) - np.arange(len(order))).mean()
    return "whole" if moved >= _WHOLE * len(order) else "buffer"
