"""Tells what `torch.utils.checkpoint` costs: the backward computes those parts of the forward again. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from pipebench.results.account import Cause
from pipebench.watch.read.in_loop import enough
from pipebench.watch.read.of_causes import Seen
from pipebench.watch.read.prepared import looks_at_forward

CODE = "checkpointing"
_LEAST = 10  # looks


def checkpointing(seen: Seen) -> Iterable[Cause]:
    """What the backward computes again, of each loop: as long as the forward took for it.

    On a device, the time is the host's, and no saving is told.
    """
    for one in seen.in_loop:
        lines = seen.run.looks(one.loader)
        found, looks = sum(line.checkpointed for line in lines), looks_at_forward(lines)
        if found < _LEAST or not enough(lines, looks):
            continue
        share, whole_s = min(1.0, found / looks), seen.forward_s(one.loader)
        if seen.matters(whole_s, share, min(found, looks)):
            spent = share * whole_s
            saved = None if seen.on_device else spent
            yield Cause(CODE, spent, saved, one.loader, {"share": share}, on_device=seen.on_device)
