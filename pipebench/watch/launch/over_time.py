"""What looks from outside find of one process over time: its own memory, its reads from storage, and why it waits."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import psutil

from pipebench.watch.record.reads import MOST, OTHERS, Place

_MOST = 64  # moments that are kept: of more, every second one


@dataclass(frozen=True)
class Seen:
    """One look: the moment in seconds, the memory of the process, and the bytes that storage gave it.

    `own_bytes` is resident memory without files and shared memory. Pages of the parent count from the start, also if
    they are only copied later. `storage_bytes` is a sum from the start of the process; what the page cache gave is not
    in it. None: the system does not say.
    """

    s: float
    own_bytes: int
    storage_bytes: int | None = None


@dataclass
class OverTime:
    """What was seen of one process. Of all looks, its main thread was `asleep` in some, `for_storage` and `stopped` in
    some.

    Asleep: it waits for a timer, a pipe, a network or a lock. For storage: a sleep that no signal ends (the state "D"),
    or in a read of a file that a network or a program of the system serves, or for a page of one. `waits_at` counts
    waits for storage by mount, where that is known. In the other looks it was on a core, or waited for one.
    """

    moments: list[Seen] = field(default_factory=list)
    looks: int = 0
    asleep: int = 0
    for_storage: int = 0
    stopped: int = 0
    waits_at: dict[Place, int] = field(default_factory=dict)
    _every: int = 1

    def note(self, now_s: float, process: Any, file_of: Callable[[bool], Place | None] = lambda asleep: None) -> None:
        """Adds one look. `process` is psutil's. Raises psutil.Error if it is gone.

        `file_of` says at which mount it waits for a file; it is told whether the process is asleep.
        """
        memory, storage = process.memory_info(), None
        with contextlib.suppress(psutil.Error, NotImplementedError):
            storage = process.io_counters().read_bytes
        if self.looks % self._every == 0:
            self.moments.append(Seen(now_s, memory.rss - getattr(memory, "shared", 0), storage))
        if len(self.moments) > _MOST:
            del self.moments[1::2]
            self._every *= 2
        with contextlib.suppress(psutil.Error):
            state = process.status()
            self.looks += 1
            self.stopped += state == psutil.STATUS_STOPPED
            asleep = state in (psutil.STATUS_SLEEPING, psutil.STATUS_IDLE)
            if asleep or state == psutil.STATUS_DISK_SLEEP:
                self._waits(asleep, file_of(asleep))

    def _waits(self, asleep: bool, place: Place | None) -> None:
        storage = not asleep or place is not None
        self.asleep += not storage
        self.for_storage += storage
        if place is not None and place != OTHERS and (place in self.waits_at or len(self.waits_at) < MOST):
            self.waits_at[place] = self.waits_at.get(place, 0) + 1
