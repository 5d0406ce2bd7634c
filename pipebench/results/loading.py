"""The knobs of a loader, and the rows of the loader table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pipebench.host import machine
from pipebench.results.measurement import Skipped, Warning

StartMethod = Literal["fork", "spawn", "forkserver"]


@dataclass(frozen=True)
class Loading:
    """The knobs of the loader. `stream` reads shards by webdataset instead of single samples.

    `timeout_s` without a batch is taken for a hang. Without a `start_method` it is the platform's own.
    """

    workers: int = 1
    prefetch_factor: int = 2
    persistent_workers: bool = True
    pin_memory: bool = False
    start_method: StartMethod | None = None
    stream: bool = False
    timeout_s: float = 120.0

    @property
    def in_flight(self) -> int:
        """How many batches the workers prepare ahead."""
        return self.workers * self.prefetch_factor

    @property
    def method(self) -> str:
        """The start method in force."""
        return self.start_method or machine.describe().start_method if self.workers else "none"

    @property
    def oversubscribed(self) -> bool:
        """Whether there are more workers than cores: they are measured all the same."""
        return self.workers > machine.usable_cores()


Kind = Literal["map", "webdataset", "ready"]


Dtype = Literal["float32", "uint8"]


@dataclass(frozen=True)
class LoaderRow:
    """Images per second of one loader in its steady state: the median reading and where the true median lies.

    `seconds_per_image` is its inverse; of a `ready` row it is the hand-off alone, which no faster pipeline gets below.
    `oversubscribed` marks more workers than usable cores. `startup_s` runs from the start of the workers to the first
    batch, and is in no reading.
    """

    dataset: Kind
    dtype: Dtype
    workers: int
    batch_size: int
    start_method: str
    readings_s: tuple[float, ...] = ()
    images: tuple[int, ...] = ()
    images_per_s: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    seconds_per_image: float | None = None
    startup_s: float | None = None
    oversubscribed: bool = False
    samples_failed: int = 0
    warnings: tuple[Warning, ...] = ()
    skipped: Skipped | None = None


def hand_off(rows: Sequence[LoaderRow]) -> dict[Dtype, LoaderRow]:
    """The `ready` row of each kind of sample, with the fewest workers."""
    found: dict[Dtype, LoaderRow] = {}
    for row in rows:
        if row.dataset == "ready" and row.images_per_s:
            found.setdefault(row.dtype, row)
    return found
