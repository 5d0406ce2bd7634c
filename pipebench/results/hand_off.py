"""The results of handing batches over from workers to the script, as plain values in base units."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class QueuePoint:
    """The mean number of ready batches over `batches` requests of the loop, around `at_s` seconds after the first."""

    at_s: float
    ready: float
    batches: int


LEAST_VIEWED = 1_000_000  # bytes: to copy them takes some tenths of a millisecond


@dataclass(frozen=True)
class HandOff:
    """The hand-off of a batch from its worker to the script.

    `serialise_*` are the seconds per batch that the worker's feeder thread spends on pickling. Tensors travel in shared
    memory, so a high `pipe_bytes_per_batch` means that a batch holds much data besides tensors. These figures are of
    all `batches`. The figures below are of the batches that were followed one by one. `followed` is their number: the
    first 1,024 batches of a pass, then a smaller and smaller share of them.

    `latency_s` is the median time from the moment when a worker has finished a batch until the script's process has
    received it. It counts only batches for which the loop was already waiting. A high value means that the hand-off
    itself is slow. `pin_s` is the median time from receipt until the batch lies in pinned memory; it is None if the
    loader does not pin.

    `tensors_per_batch` counts tensors, and `storages_per_batch` those pieces of shared memory that hold them: each
    crosses by itself, and several tensors may view one. `shared_bytes_per_batch` is the size of the shared memory;
    what several tensors share counts once. `viewed_bytes_per_batch` of it are copied there, but belong to no tensor:
    some are views, and all the memory that they view crosses with them. `arrays_per_batch` and `array_bytes_per_batch`
    are of NumPy arrays. Unlike tensors, they are copied through the pipe. `carried` is an attribute of objects in a
    batch, such as "Scan.cloud", that holds the `carried_share` of all its arrays and tensors ("": none holds half).

    `ready` is the mean number of finished batches that lay ready when the loop asked for one. Near 0, the workers are
    the limit. Near `most_ready` (the prefetch of all workers), the loop is the limit. `ready_over_time` is the same
    figure over the run. `out_of_order` is the share of waits in which a later batch arrived before the batch that was
    due. `out_of_order_s_per_batch` is the time that the loop then waited although the later batch was ready. A high
    value means that the cost of batches differs much, and that keeping their order takes time.
    """

    serialise_s_per_batch: float
    serialise_cpu_s_per_batch: float
    pipe_bytes_per_batch: float
    batches: int
    followed: int = 0
    latency_s: float | None = None
    pin_s: float | None = None
    tensors_per_batch: float | None = None
    shared_bytes_per_batch: float | None = None
    arrays_per_batch: float | None = None
    array_bytes_per_batch: float | None = None
    ready: float | None = None
    most_ready: int | None = None
    ready_over_time: tuple[QueuePoint, ...] = ()
    out_of_order: float | None = None
    out_of_order_s_per_batch: float | None = None
    viewed_bytes_per_batch: float | None = None
    storages_per_batch: float | None = None
    carried: str = ""
    carried_share: float = 0.0

    @property
    def held_bytes_per_batch(self) -> float:
        """The bytes of the tensors themselves, without what else they view."""
        return (self.shared_bytes_per_batch or 0.0) - (self.viewed_bytes_per_batch or 0.0)

    @property
    def views(self) -> bool:
        """Whether most of what crosses belongs to no tensor, and is enough to matter."""
        viewed = self.viewed_bytes_per_batch or 0.0
        most = max((self.shared_bytes_per_batch or 0.0) / 2, self.pipe_bytes_per_batch)
        return viewed >= LEAST_VIEWED and viewed > most
