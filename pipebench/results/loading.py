"""The settings of a loader, and the rows of the loader table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pipebench.host import machine
from pipebench.results.measurement import Skipped, Warning

StartMethod = Literal["fork", "spawn", "forkserver"]


@dataclass(frozen=True)
class Loading:
    """The settings of the loader. With `stream` it reads shards by webdataset instead of single samples.

    After `timeout_s` seconds without a batch, the loader counts as hung. If `start_method` is None, the platform's
    default is used.
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
        """The start method that is used; "none" if there are no workers."""
        return self.start_method or machine.describe().start_method if self.workers else "none"

    @property
    def oversubscribed(self) -> bool:
        """Whether there are more workers than usable cores. They are measured all the same."""
        return self.workers > machine.usable_cores()


Kind = Literal["map", "packed", "webdataset", "ready"]


Dtype = Literal["float32", "uint8"]


@dataclass(frozen=True)
class PackedSize:
    """The bytes of all images of an embedded data set, and of those of its packed copy."""

    before_bytes: int
    after_bytes: int


@dataclass(frozen=True)
class LoaderRow:
    """Images per second of one loader in its steady state: the median reading and an interval for the true median.

    `seconds_per_image` is the inverse. For a `ready` row it is the hand-off alone, and even the fastest pipeline needs
    at least that time. `cpu_s` are the CPU seconds of this process and the workers in each reading. `images_per_core_s`
    are the images per CPU second, in the interval from `core_low` to `core_high`. Other processes change these less
    than the rate. `oversubscribed` marks more workers than usable cores. `startup_s` is the time from the start of the
    workers to the first batch; the readings do not include it. `packed` is the size of the copy that a `packed` row
    reads; None for the user's own files.
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
    cpu_s: tuple[float, ...] = ()
    images_per_core_s: float | None = None
    core_low: float | None = None
    core_high: float | None = None
    packed: PackedSize | None = None


def hand_off(rows: Sequence[LoaderRow]) -> dict[Dtype, LoaderRow]:
    """For each dtype, the `ready` row with the fewest workers. Rows come in the order of their numbers of workers."""
    found: dict[Dtype, LoaderRow] = {}
    for row in rows:
        if row.dataset == "ready" and row.images_per_s:
            found.setdefault(row.dtype, row)
    return found
