"""Says what a loader is for its reader: where it was made, by which library, and what its batches hold. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Literal

from pipebench.results.batches import BatchContent, SlowSample
from pipebench.watch.read.gather import Run
from pipebench.watch.record.lines import CodePlace, LoaderFound, LoopSums, PassBegun, PassEnded, Remade
from pipebench.watch.record.own_code import owner
from pipebench.watch.record.worker_lines import Content

_NS = 1e-9
_SLOWEST = 10
# Libraries that make loaders from settings of their own, each with the file that does so ("": any of its files).
# `render.frameworks` has their words.
_FRAMEWORKS = {
    "transformers": "", "ultralytics": "", "lightning": "datamodule.py",
    "pytorch_lightning": "datamodule.py", "deepspeed": "dataloader.py",
}  # fmt: skip
_CALLERS = ("lightning", "pytorch_lightning")  # libraries that call functions of the user to make loaders


def place(made: Sequence[CodePlace]) -> CodePlace:
    """The nearest line of the user's own code that led to a loader; else the nearest line at all."""
    return next((one for one in made if not owner(one.file)), made[0] if made else CodePlace("", 0))


def made_by(made: Sequence[CodePlace]) -> str:
    """The library that made a loader for the user; "" if the user's own code did, or another library."""
    for one in made:
        found = owner(one.file)
        if not found:
            break
        if found in _FRAMEWORKS and one.file.endswith(_FRAMEWORKS[found]):
            return found
    return ""


def called_by(made: Sequence[CodePlace]) -> str:
    """The library that called the user's function that made a loader, as Lightning calls its hooks; "" if none did."""
    owners = [owner(one.file) for one in made]
    own = owners[owners.index("") :] if "" in owners else []
    return next((one for one in own if one in _CALLERS), "")


def models_of(run: Run, loader: int) -> frozenset[str]:
    """The names of the neural networks that the dataset runs for each sample."""
    found = run.of_loader(LoaderFound, loader)
    return frozenset(name for one in found for name in one.models)


def again(run: Run, loader: int) -> int:
    """How often a loader was made anew."""
    return max((one.again for one in run.of_loader(PassBegun, loader)), default=0)


def remade(run: Run, loader: int) -> Remade:
    """What the datasets were with which a loader was made anew: "other", if most of them were."""
    last = next((one for one in reversed(run.of_loader(PassBegun, loader)) if one.again), None)
    if last is None:
        return "same"
    return "other" if 2 * last.others > last.again else last.remade


def other_data(run: Run, loader: int) -> frozenset[int]:
    """The passes over a loader that was made anew for other data."""
    begun = sorted(run.of_loader(PassBegun, loader), key=lambda one: one.number)
    return frozenset(one.number for before, one in pairwise(begun) if one.others > before.others)


def single(run: Run, loader: int) -> Literal["left", "whole"] | None:
    """How the passes over a loader ended that had one batch each; None if one had more, or if there is only one pass.

    They were left with their first batch, as in `next(iter(loader))`, or it was the whole pass. Warm-up counts here.
    """
    begun, ended = len(run.of_loader(PassBegun, loader)), len(run.of_loader(PassEnded, loader))
    lines = run.of_loader(LoopSums, loader)
    turns = sum(one.turns for one in lines)
    if begun < 2 or any(one.first or one.turns > 1 for one in lines):
        return None
    if 2 * turns >= begun:
        return "whole"
    return "left" if 2 * ended >= begun else None


def content(found: Iterable[Content]) -> BatchContent | None:
    """What a batch holds on average; None if no batch showed anything but samples."""
    batches, samples, tokens, slots, frames, seconds, columns, unused, uneven, targets, ignored = map(
        sum, zip(Content(), *found, strict=True)
    )
    if not batches:
        return None
    return BatchContent(
        samples=samples / batches,
        tokens=tokens / batches or None,
        padding_share=1 - tokens / slots if slots else None,
        frames=frames / batches or None,
        sound_s=seconds / batches or None,
        unused_share=unused / columns if columns else None,
        uneven_share=uneven / columns if columns else None,
        targets=targets / batches or None,
        ignored_share=ignored / targets if targets else None,
    )


def slowest(run: Run, loaders: Sequence[int]) -> tuple[SlowSample, ...]:
    """The slowest samples of these loaders, the slowest first."""
    found = [
        SlowSample(one.name, loader, process.worker, one.spent_ns * _NS)
        for loader in loaders
        for process, record in run.sums(loader)
        for one in record.slow
    ]
    return tuple(sorted(found, key=lambda one: -one.s)[:_SLOWEST])
