"""What Ray's workers do: the reference pipeline on a block of places, as columns of arrays. Imported there by its name.

Ray hands arrays from process to process, so a bad sample is a row of zeros with its reason beside it.
"""

from __future__ import annotations

import functools
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipebench.errors import BadSample
from pipebench.reference.pipeline import Chain, Photographs, Recipe
from pipebench.reference.training_loop import Now
from pipebench.task import Workload

STAGES = ("read", "decode + crop", "transform", "collate")
SIDE = 224
_SAID = 200  # bytes of the reason of a bad sample


@dataclass(frozen=True)
class Work:
    """The samples of one pass: `count` images in a random order, again and again until there are enough of them."""

    workload: Workload
    recipe: Recipe
    count: int
    seed: int

    def indices(self, places: Any) -> Any:
        """The image at each place of the pass."""
        turns, within = np.divmod(np.asarray(places, np.int64), self.count)
        orders = {int(turn): _shuffled(self.count, self.seed, int(turn)) for turn in np.unique(turns)}
        return np.array([orders[int(turn)][one] for turn, one in zip(turns, within, strict=True)], np.int64)


@functools.lru_cache(maxsize=4)
def _shuffled(count: int, seed: int, turn: int) -> Any:
    return np.random.default_rng([seed, turn]).permutation(count)


class Timed(Photographs):
    """The reference data set with a clock around each stage. `spent` has the seconds by stage since `take`."""

    def __init__(self, workload: Workload, recipe: Recipe, now: Now = time.perf_counter) -> None:
        super().__init__(workload, recipe)
        self._now, self.spent = now, defaultdict[str, float](float)

    @property
    def chain(self) -> Chain:
        if self._chain is None:
            self._chain = Chain(self.recipe, self.workload, around=self._around)
        return self._chain

    def _around(self, stage: str, call: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def timed(given: Any) -> Any:
            begin = self._now()
            try:
                return call(given)
            finally:
                self.spent[stage] += self._now() - begin

        return timed

    def _bytes(self, one: Any) -> bytes:
        return self._around("read", super()._bytes)(one)  # type: ignore[no-any-return]

    def take(self) -> list[float]:
        """The seconds of each of `STAGES` since the last call."""
        found = [self.spent[name] for name in STAGES]
        self.spent.clear()
        return found


@functools.lru_cache(maxsize=1)
def _built(workload: Workload, recipe: Recipe) -> Timed:
    import torch

    torch.set_num_threads(1)
    return Timed(workload, recipe)


def make(block: dict[str, Any], *, work: Work, now: Now = time.perf_counter) -> dict[str, Any]:
    """The samples at the places of a block (its column `id`), N of them.

    Columns: `place`, `index` and `label` (N), `image` (N×3×224×224), `spent` (N×5: seconds of each of `STAGES` and of
    all of this function, shared evenly), `bad` and `said` (why a sample is bad, as UTF-8).
    """
    begin = now()
    dataset = _built(work.workload, work.recipe)
    places = np.asarray(block["id"], np.int64)
    indices = work.indices(places)
    items = [dataset[int(index)] for index in indices]
    good = [place for place, item in enumerate(items) if not isinstance(item, BadSample)]
    labels, said = np.zeros(len(items), np.int64), np.zeros((len(items), _SAID), np.uint8)
    made = dataset.chain.collate([items[place][0] for place in good]).numpy() if good else None  # type: ignore[index]
    if made is not None and len(good) == len(items):
        images = made
    else:
        images = np.zeros((len(items), 3, SIDE, SIDE), work.recipe.dtype)
        if made is not None:
            images[good] = made
    for place, item in enumerate(items):
        if isinstance(item, BadSample):
            reason = f"{item.kind}\n{item.message}".encode()[:_SAID]
            said[place, : len(reason)] = np.frombuffer(reason, np.uint8)
        else:
            labels[place] = item[1]
    bad = np.ones(len(items), bool)
    bad[good] = False
    spent = np.array([*dataset.take(), now() - begin]) / len(items)
    return {
        "place": places, "index": indices, "label": labels, "image": images, "bad": bad, "said": said,
        "spent": np.tile(spent, (len(items), 1)),
    }  # fmt: skip


def reason(said: Any) -> tuple[str, str]:
    """The kind and the message of a bad sample, from its row of the column `said`."""
    kind, _, message = bytes(np.asarray(said, np.uint8)).rstrip(b"\0").decode(errors="replace").partition("\n")
    return kind, message
