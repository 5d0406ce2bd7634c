"""The hand-off as the script's process sees it: which task went to which worker, and when its batch arrived.

The k-th fetch of a worker in a pass is the k-th task that was given to it: that is how its records are matched with
these. The queue is never polled; how full it was is derived afterwards.
"""

from __future__ import annotations

import functools
import statistics
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any

from pipebench.watch.patches import unseen
from pipebench.watch.recording import Recording


@dataclass
class _Tasks:
    """The tasks of one pass that are under way, by their number."""

    given: dict[int, int] = field(default_factory=dict)
    worker: dict[int, tuple[int, int]] = field(default_factory=dict)
    received: dict[int, int] = field(default_factory=dict)


class Arrivals:
    """The tasks of every iterator with workers."""

    def __init__(self) -> None:
        self._tasks: weakref.WeakKeyDictionary[Any, _Tasks] = weakref.WeakKeyDictionary()
        self.lost = False

    def note(self, recording: Recording, act: Callable[..., None], *args: Any) -> None:
        """Runs `act`; a fault in it ends the following of batches, and nothing else."""
        if not recording.on or self.lost:
            return
        try:
            act(*args)
        except Exception as error:
            self.lost = True
            recording.fault("following a batch", error)

    def put(self, iterator: Any, number: int) -> None:
        """Task `number` has just been given to a worker; numbers start again at 0 with each pass."""
        if number == 0:
            self._tasks[iterator] = _Tasks()
        tasks = self._tasks.get(iterator)
        if tasks is not None:
            worker = iterator._task_info[number][0]
            nth = tasks.given.get(worker, 0)
            tasks.given[worker] = nth + 1
            tasks.worker[number] = (worker, nth)

    def received(self, iterator: Any, number: object) -> None:
        tasks = self._tasks.get(iterator)
        if tasks is not None and isinstance(number, int):
            tasks.received[number] = perf_counter_ns()

    def taken(self, iterator: Any, asked: int, now: int) -> list[int] | None:
        """[worker, its n-th task, asked, received, taken] of the batch that `next()` has just returned."""
        tasks = self._tasks.get(iterator)
        if tasks is None or self.lost or not getattr(iterator, "_in_order", True):
            return None
        number = iterator._rcvd_idx - 1
        received = tasks.received.pop(number, None)
        place = tasks.worker.pop(number, None)
        for old in [one for one in tasks.received if one < number]:
            del tasks.received[old]
        for old in [one for one in tasks.worker if one < number]:
            del tasks.worker[old]
        return None if received is None or place is None else [*place, asked, received, now]


def watch_queues(recording: Recording, arrivals: Arrivals, kind: Any) -> None:
    """Notes each task that is given out and each batch that comes in, on the iterator class with workers."""
    put, get = kind._try_put_index, kind._get_data

    @unseen
    @functools.wraps(put)
    def _try_put_index(self: Any) -> None:
        number = self._send_idx
        put(self)
        if self._send_idx > number:
            arrivals.note(recording, arrivals.put, self, number)

    @unseen
    @functools.wraps(get)
    def _get_data(self: Any) -> Any:
        found = get(self)
        arrivals.note(recording, arrivals.received, self, found[0])
        return found

    recording.patches.replace(kind, "_try_put_index", _try_put_index)
    recording.patches.replace(kind, "_get_data", _get_data)


@dataclass(frozen=True)
class Followed:
    """One batch on its way, in nanoseconds of the monotonic clock: done by its worker, asked for, received, taken."""

    loader: int
    number: int
    done: int
    asked: int
    received: int
    taken: int


def arrival_figures(followed: Sequence[Followed]) -> tuple[float | None, float | None, float | None]:
    """Median latency of batches that were waited for, batches ready when asked, share of waits out of order."""
    if not followed:
        return None, None, None
    late = [one.received - one.done for one in followed if one.done > one.asked]
    ready, overtaken = 0, 0
    for place, one in enumerate(followed):
        later = [
            other for other in followed[place : place + 64] if (other.loader, other.number) == (one.loader, one.number)
        ]
        ready += sum(other.done <= one.asked for other in later)
        overtaken += any(one.asked < other.received < one.received for other in later[1:])
    latency = statistics.median(late) * 1e-9 if late else None
    return latency, ready / len(followed), overtaken / len(followed)
