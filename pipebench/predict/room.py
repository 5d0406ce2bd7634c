"""How many workers of a loader its data, memory, shared memory and file descriptors have room for. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from pipebench.results.next_move import Lacking
from pipebench.results.watched import LoaderResult, WatchResult

PREFETCH_FACTOR = 2  # of torch, if nothing is said
_FREE = 0.5  # of free memory: what changes may take of it
_SPARE_DESCRIPTORS = 64  # for files that the script opens


@dataclass(frozen=True)
class Room:
    """What there is for the workers of one loader, in each of `ranks` that share the machine.

    `workers` and `prefetch_factor` are the present ones, and a pass has so many `batches` (None: not known).
    `free_bytes` is free memory, of one rank. What is not known is taken to fit.
    """

    watched: WatchResult
    loader: LoaderResult
    workers: int
    prefetch_factor: int
    batches: float | None = None
    free_bytes: float | None = None
    ranks: int = 1

    @property
    def parts(self) -> int | None:
        """Into how many parts the work can be divided: the shards, or the batches of a pass. None: not known."""
        known = [int(one) for one in (self.loader.shards, self.batches) if one]
        return min(known, default=None)

    def most(self, workers: int) -> int:
        """The largest number of workers up to `workers` for which nothing is lacking, but no fewer than now."""
        fits = (one for one in range(workers, self.workers, -1) if self.lacks(one) is None)
        return next(fits, self.workers)

    def lacks(self, workers: int) -> Lacking | None:
        """What so many workers have too little of. None: nothing is known to be lacking."""
        if 0 < (self.loader.shards or 0) < workers:
            return "shards"
        if self.batches is not None and self.batches < workers:
            return "batches"
        if not self.has_shared_memory(workers, self.prefetch_factor):
            return "shared-memory"
        if not self.has_descriptors(workers, self.prefetch_factor):
            return "descriptors"
        room = self.has_memory_for(workers - self.workers) and self.holds(workers, self.prefetch_factor)
        return None if room else "memory"

    def has_shared_memory(self, workers: int, prefetch_factor: int, batch_bytes: float | None = None) -> bool:
        """Whether the batches that so many workers make ahead fit there, beside those of the present loader.

        A batch has `batch_bytes` there (None: as many as it has now). Where nothing is known, they fit.
        """
        host, found = self.watched.host, self.watched.hand_off
        each = batch_bytes if batch_bytes is not None else found.shared_bytes_per_batch if found is not None else None
        if each is None or host is None or host.shared_memory_size_bytes is None:
            return True
        needed = self.ranks * workers * (prefetch_factor + 1) * each
        return needed < host.shared_memory_size_bytes - (host.shared_memory_bytes or 0)

    def holds(self, workers: int, prefetch_factor: int) -> bool:
        """Whether shared memory, file descriptors and free memory hold what so many workers make ahead."""
        room = self.has_shared_memory(workers, prefetch_factor) and self.has_descriptors(workers, prefetch_factor)
        batches, found = workers * prefetch_factor - self.workers * self.prefetch_factor, self.watched.hand_off
        each = 0.0 if found is None else found.pipe_bytes_per_batch + (found.shared_bytes_per_batch or 0.0)
        return room and self._are_free(batches * each)

    def has_memory_for(self, workers: int) -> bool:
        """Whether a part of free memory holds so many more workers. If their memory is unknown, it does."""
        return self._are_free(workers * (self.worker_bytes or 0.0))

    def _are_free(self, bytes_: float) -> bool:
        """Whether a part of free memory holds these bytes, wherever they lie. If it is unknown, it does."""
        return self.free_bytes is None or bytes_ <= _FREE * self.free_bytes

    def has_descriptors(self, workers: int, prefetch_factor: int, tensors: float | None = None) -> bool:
        """Whether the script may open as many files as the tensors need that so many workers make ahead.

        A batch has so many `tensors` (None: as many as it has now). With torch's strategy "file_descriptor", a tensor
        in shared memory holds one until nobody has it any more. While a change is tried, both loaders have batches.
        Where nothing is known, they fit.
        """
        host, found = self.watched.host, self.watched.hand_off
        each = tensors if tensors is not None else found.tensors_per_batch if found is not None else None
        if each is None or host is None or host.descriptor_limit is None or host.sharing_strategy != "file_descriptor":
            return True
        needed = workers * (prefetch_factor + 1) * each
        return needed < host.descriptor_limit - (host.script_descriptors or 0) - _SPARE_DESCRIPTORS

    @property
    def worker_bytes(self) -> float | None:
        """The memory of a worker, the largest of the present ones."""
        own = (one.pss_bytes for one in self.watched.workers if one.loader == self.loader.loader)
        return max((one for one in own if one), default=None)
