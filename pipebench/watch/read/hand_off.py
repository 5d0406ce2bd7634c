"""Follows batches from their worker to the step that used them, and computes latency, order and queue. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pipebench.predict.asked import USUAL_HAND_OFF_S
from pipebench.results.hand_off import HandOff, QueuePoint
from pipebench.results.watched import LoaderResult
from pipebench.watch.read.gather import Process, Run, ShownTime
from pipebench.watch.record.lines import Arrival, FetchSums, HandedOver, LoaderFound, LoopSums
from pipebench.watch.record.sampling import BLOCK, followed
from pipebench.watch.record.worker_lines import Carried, ToHandOver

_NS = 1e-9
_POINTS = 60
# The slowest that a hand-off is taken to be: small Python objects, and a descriptor for each tensor.
_PICKLED_BYTES_PER_S, _TENSOR_S = 20e6, 0.0005
# What it usually takes in both processes: a descriptor of each tensor but the first ones, and bytes that are copied
# into shared memory, or through the pipe (docs/figures/watch.md).
_USUAL_TENSORS, _DESCRIPTOR_S = 2, 0.0003
_TENSOR_BYTE_S, _ARRAY_BYTE_S = 0.7e-9, 4e-9
_MANY = 32  # tensors of a batch


def assumed_s(held: ToHandOver) -> float:
    """The seconds that handing over a batch of a loader without workers is assumed to take, in both processes."""
    tensors, tensor_bytes, array_bytes = (one / held.batches for one in held[1:])
    more = max(0.0, tensors - _USUAL_TENSORS) * _DESCRIPTOR_S
    return USUAL_HAND_OFF_S + more + tensor_bytes * _TENSOR_BYTE_S + array_bytes * _ARRAY_BYTE_S


def explained_s(pipe_bytes: float, tensors: float) -> float:
    """The longest that receiving and unpickling a batch may take by its size: bytes in the pipe, and its tensors."""
    return pipe_bytes / _PICKLED_BYTES_PER_S + tensors * _TENSOR_S


def one_by_one(found: HandOff) -> float | None:
    """How many tensors of a batch cross one by one, if that takes most of its hand-off: more than its bytes do.

    Each has shared memory of its own. Views of one memory cross with it, so they do not count.
    """
    tensors = found.storages_per_batch or 0.0
    bytes_s = explained_s(found.pipe_bytes_per_batch, 0.0) + (found.shared_bytes_per_batch or 0.0) * _TENSOR_BYTE_S
    return tensors if tensors >= _MANY and explained_s(0.0, tensors) > bytes_s else None


@dataclass(frozen=True)
class FollowedBatch:
    """One batch with both ends known. `made` is from the worker with process id `pid`, `got` from the loop."""

    loader: int
    number_of_pass: int
    pid: int
    made: HandedOver
    got: Arrival

    @property
    def task(self) -> int:
        return self.made.task


Ends = dict[tuple[int, int], HandedOver]


def matched(
    processes: Sequence[Process], loader: int, shown: ShownTime | None = None
) -> tuple[list[FollowedBatch], Ends]:
    """The followed batches that the loop took, in its order; and all that the workers made, by pass and task."""
    shown = shown or ShownTime()
    made = _made(processes, loader)
    batches = []
    for turns in (one for process in processes for one in process.of(LoopSums) if one.loader == loader):
        for got in turns.arrivals:
            found = made.get((turns.number_of_pass, got.task))
            if found is not None and shown.begin <= got.asked < shown.end:
                pid, end = found
                batches.append(FollowedBatch(loader, turns.number_of_pass, pid, end, got))
    return batches, {place: end for place, (_, end) in made.items()}


def _made(processes: Sequence[Process], loader: int) -> dict[tuple[int, int], tuple[int, HandedOver]]:
    """For each pass and task: the worker's process id, and what the worker recorded about the batch."""
    return {
        (one.number_of_pass, one.task): (process.pid, one)
        for process in processes
        for sums in process.of(FetchSums)
        if sums.loader == loader
        for one in sums.handed
    }


def in_order(batches: Sequence[FollowedBatch]) -> bool:
    """Whether the loop took every batch in the order of the tasks (a loader can be set to ignore it)."""
    places = [(one.number_of_pass, one.task) for one in sorted(batches, key=lambda one: one.got.taken)]
    return places == sorted(places)


def latency_s(batches: Iterable[FollowedBatch]) -> float | None:
    """Median seconds from a worker's end of a batch to its arrival, over batches that the loop already waited for.

    A worker's first batch is left out as start-up: the feeder thread is started for it.
    """
    late = [
        (one.got.received or one.got.came) - one.made.done
        for one in batches
        if one.made.done > one.got.asked and one.made.nth
    ]
    return statistics.median(late) * _NS if late else None


def pin_s(batches: Iterable[FollowedBatch]) -> float | None:
    """Median seconds that the pin-memory thread took for a batch; None if there is no such thread."""
    found = [one.got.pinned - one.got.received for one in batches if one.got.pinned]
    return statistics.median(found) * _NS if found else None


def received_s(batches: Iterable[FollowedBatch]) -> float | None:
    """Median seconds in which the pin-memory thread received and unpickled a batch; None if there is no such thread."""
    found = [one.got.received - one.got.begun for one in batches if one.got.pinned]
    return statistics.median(found) * _NS if found else None


def overtaken_ns(batches: Sequence[FollowedBatch], most: int) -> list[int]:
    """For each batch: how long the loop waited for it while a later batch was already there. 0: it came first.

    The first batch of each worker is left out: which worker starts first says nothing about order.
    """
    came = {(one.number_of_pass, one.task): one.got.came for one in batches}
    found = []
    for one in (one for one in batches if one.made.nth):
        later = (came.get((one.number_of_pass, one.task + ahead)) for ahead in range(1, min(most, BLOCK) + 1))
        first = min((at for at in later if at is not None and one.got.asked < at < one.got.came), default=one.got.came)
        found.append(one.got.came - first)
    return found


def ready_when_asked(batches: Sequence[FollowedBatch], ends: Ends, most: int) -> list[tuple[int, int]]:
    """(moment, number of ready batches) of each request by the loop for which every possible batch was followed.

    A batch is ready once it is pickled or, with a pin-memory thread, pinned. `most` is how many batches the loader
    keeps in flight; more than 64 cannot be counted. The list is empty if batches came out of order.
    """
    if not in_order(batches):
        return []
    ready = {place: made.sent for place, made in ends.items()}
    ready.update({(one.number_of_pass, one.task): one.got.pinned for one in batches if one.got.pinned})
    found = []
    for one in batches:
        tasks = range(one.task, one.task + min(most, BLOCK))
        if all(followed(task, one.number_of_pass) for task in tasks):
            times = [ready.get((one.number_of_pass, task)) for task in tasks]
            found.append((one.got.asked, sum(at is not None and at <= one.got.asked for at in times)))
    return found


def over_time(points: Sequence[tuple[int, int]], most: int = _POINTS) -> tuple[QueuePoint, ...]:
    """At most `most` points: averages over equal parts of the time from first to last. Empty parts are left out."""
    if not points:
        return ()
    begin, end = min(at for at, _ in points), max(at for at, _ in points)
    width = max(1, -(-(end - begin + 1) // most))
    parts: dict[int, list[int]] = {}
    for at, ready in points:
        parts.setdefault((at - begin) // width, []).append(ready)
    return tuple(
        QueuePoint((part + 0.5) * width * _NS, sum(found) / len(found), len(found))
        for part, found in sorted(parts.items())
    )


def hand_off(run: Run, in_loop: tuple[int, ...]) -> HandOff | None:
    """The hand-off of all loaders of the loop together; None if no workers of these loaders were watched."""
    pickled = [sums.pickled for loader in in_loop for _, sums in run.sums(loader)]
    count = sum(one.batches for one in pickled)
    if not count:
        return None
    batches: list[FollowedBatch] = []
    lost: list[int] = []
    points: list[tuple[int, int]] = []
    most = [0]
    for loader in in_loop:
        found, ends = matched(run.processes, loader, run.shown)
        most.append(under_way(run.processes, loader))
        batches += found
        lost += overtaken_ns(found, most[-1])
        points += ready_when_asked(found, ends, most[-1])
    carried = [one for loader in in_loop for process in run.workers_of(loader) for one in process.of(Carried)]
    largest = max(carried, key=lambda one: one.carried_bytes, default=None)
    return HandOff(
        serialise_s_per_batch=sum(one.wall_ns for one in pickled) / count * _NS,
        serialise_cpu_s_per_batch=sum(one.cpu_ns for one in pickled) / count * _NS,
        pipe_bytes_per_batch=sum(one.pipe_bytes for one in pickled) / count,
        batches=count,
        followed=len(batches),
        latency_s=latency_s(batches),
        pin_s=pin_s(batches),
        tensors_per_batch=_mean([one.made.tensors for one in batches]),
        shared_bytes_per_batch=_mean([one.made.shared_bytes for one in batches]),
        arrays_per_batch=_mean([one.made.arrays for one in batches]),
        array_bytes_per_batch=_mean([one.made.array_bytes for one in batches]),
        viewed_bytes_per_batch=_mean([one.made.viewed_bytes for one in batches]),
        storages_per_batch=_mean([one.made.storages for one in batches]),
        ready=_mean([ready for _, ready in points]),
        most_ready=max(most) or None,
        ready_over_time=over_time(points),
        out_of_order=_mean([int(spent > 0) for spent in lost]),
        out_of_order_s_per_batch=_mean([spent * _NS for spent in lost]),
        carried=largest.attribute if largest is not None else "",
        carried_share=largest.carried_bytes / largest.batch_bytes if largest is not None else 0.0,
    )


def carried_of(found: HandOff) -> dict[str, str | int | float]:
    """What objects in a batch bring, as values of a cause; none if that is not most of it."""
    return {"carried": found.carried, "carried_share": found.carried_share} if found.carried else {}


def under_way(processes: Iterable[Process], loader: int) -> int:
    """How many batches a loader keeps in flight: its prefetch factor times the number of workers."""
    described = [one for process in processes for one in process.of(LoaderFound) if one.loader == loader]
    return max((one.workers * (one.prefetch_factor or 0) for one in described), default=0)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def asks_for_each(main: LoaderResult, *stages: str) -> bool:
    """Whether the loader asks its dataset for the samples of a batch one by one, as far as these rows say.

    Without a size of its batches, it may ask for whole ones, as with a batch sampler in place of a sampler.
    """
    return (
        (main.batch_size or 0) > 1
        and main.shards is None
        and not any(name.endswith(".__getitems__") for name in stages)
    )
