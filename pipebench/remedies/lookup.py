"""ToTensor and Normalize by one look into a table: a byte has 256 values, so a channel has 256 results.

The user's own transforms make the table, so the results are the same, bit for bit. That is checked before, on some
samples of each worker. One pass over the pixels replaces several. The user gets the class that was tried.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from pipebench.remedies.seen import Seen, share_of, without_share
from pipebench.remedies.source import call_of, steps_of
from pipebench.results.advice import Change, Finding, Rewrite
from pipebench.watch.record.patches import Patches
from pipebench.watch.trial import chains
from pipebench.watch.trial.chains import FIRST, LAST
from pipebench.watch.trial.compared import Comparing, compare_first
from pipebench.watch.trial.edits import Edit
from pipebench.watch.trial.pictures import checked

PLACE = 6
TITLE = "ToTensor, Normalize by table"
LEAST_SHARE = 0.1  # of the time of the workers
HOW = ("Put both into ByTable(...). `--patch FILE` writes that class, too.",)
HOW_BY_HAND = ("Put both into ByTable(...), a class to copy from pipebench/remedies/lookup.py.",)


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    if tried or not seen.workers or not seen.waits or not share_of(seen, "transform", LAST):
        return None
    share = sum(share_of(seen, "transform", name) for name in (*FIRST, *chains.CONVERSIONS, LAST))
    if share < LEAST_SHARE:
        return None
    rewrites = _rewrites(seen)
    return Change(
        "lookup", {}, "a class of 20 lines", predicted=min(seen.most, without_share(share)), title=TITLE,
        edits={"lookup": {}}, how=HOW if rewrites else HOW_BY_HAND, at=call_of(seen, LAST), rewrites=rewrites,
        group=chains.TO_FLOAT,
    )  # fmt: skip


def _rewrites(seen: Seen) -> tuple[Rewrite, ...]:
    """The transforms within `ByTable(...)`, and its class; nothing if there is not exactly one such place."""
    if (found := steps_of(seen, LAST, chains.place_of)) is None:
        return ()
    source, steps = found
    return (*source.wrapped(steps[0], steps[-1], "ByTable("), source.defined(ByTable, steps[-1]))


class _Lookup(Edit):
    def in_worker(self, fetcher: Any, patches: Patches) -> None:
        chain = chains.only_chain(fetcher.dataset)
        kind: Any = ByTable
        table = kind(*chain.steps)
        used = functools.partial(checked, table.tables, "not-bytes")
        compare_first(fetcher, lambda: chain.replace(table, patches), Comparing(0.0), used)


edit = _Lookup


class ByTable:
    """The same as these transforms of images, by a table of what they make of each byte. Others go the usual way."""

    def __init__(self, *steps):  # type: ignore[no-untyped-def]  # the user gets this text
        self.steps = steps
        self.tables = {}

    def __call__(self, image):  # type: ignore[no-untyped-def]
        import numpy as np
        import torch
        from PIL import Image

        pixels = None if isinstance(image, torch.Tensor) else np.asarray(image)
        if pixels is None or pixels.dtype != np.uint8:
            for step in self.steps:
                image = step(image)
            return image
        pixels = pixels.reshape(*pixels.shape[:2], -1)
        channels = pixels.shape[2]
        if channels not in self.tables:
            ramp = np.repeat(np.arange(256, dtype=np.uint8).reshape(1, 256, 1), channels, 2)
            found = Image.fromarray(ramp if channels > 1 else ramp[..., 0])
            for step in self.steps:
                found = step(found)
            self.tables[channels] = found[:, 0].numpy().copy(), type(found)  # type: ignore[index]
        table, kind = self.tables[channels]
        out = np.empty((channels, *pixels.shape[:2]), table.dtype)
        for channel, values in enumerate(table):
            np.take(values, pixels[..., channel], out=out[channel], mode="clip")
        return torch.from_numpy(out).as_subclass(kind)
