"""How long a CUDA device that trains is idle, from its own events in the records of a loop. Pure."""

from __future__ import annotations

from pipebench.watch.read.gather import Run
from pipebench.watch.record.record_file import OTHER


def besides_share(run: Run, loader: int) -> float | None:
    """The share of a loop's work besides waiting and training in which the device had no training to do.

    High: that work holds the device up. Low: the device trains meanwhile. None: no device, or it was not measured.
    """
    turns = [(one.idle.besides_ns, one.phases_ns[OTHER]) for one in run.turns(loader) if one.idle]
    known = [(idle, spent) for idle, spent in turns if idle is not None]
    whole = sum(spent for _, spent in known)
    return min(1.0, sum(idle for idle, _ in known) / whole) if whole else None
