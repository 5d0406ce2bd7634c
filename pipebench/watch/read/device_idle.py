"""How long a CUDA device that trains is idle, from its own events in the records of a loop. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pipebench.watch.read.gather import Run
from pipebench.watch.record.lines import LoopSums
from pipebench.watch.record.record_file import OTHER


class MeanIdle(NamedTuple):
    """The mean idle time of a device in a wait, in seconds, and in how many waits it was measured."""

    s: float
    waits: int


def in_waits(turns: Iterable[LoopSums]) -> MeanIdle | None:
    """The idle time in the waits of these lines. None: no device, or no wait was measured."""
    found = [one.idle for one in turns if one.idle]
    waits = sum(one.waits for one in found)
    return MeanIdle(sum(one.idle_ns for one in found) * 1e-9 / waits, waits) if waits else None


def besides_share(run: Run, loader: int) -> float | None:
    """The share of a loop's work besides waiting and training in which the device had no training to do.

    High: that work holds the device up. Low: the device trains meanwhile. None: no device, or it was not measured.
    """
    turns = [(one.idle.besides_ns, one.phases_ns[OTHER]) for one in run.turns(loader) if one.idle]
    known = [(idle, spent) for idle, spent in turns if idle is not None]
    whole = sum(spent for _, spent in known)
    return min(1.0, sum(idle for idle, _ in known) / whole) if whole else None
