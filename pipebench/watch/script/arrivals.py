"""Observes the hand-off in the script's process: when a batch arrived, was pinned, and was taken.

It also says which part of the wait was for the workers, and which for receiving, unpickling and pinning.

Nothing is polled, and workers send nothing more than before. The number that torch sends with a batch identifies it.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from pipebench.watch.record.lines import Arrival
from pipebench.watch.record.patches import unseen
from pipebench.watch.record.recording import Recording
from pipebench.watch.record.sampling import followed
from pipebench.watch.script.wait_parts import Passed, WaitParts, receiving

_NOT_PINNED = Passed(0, 0, 0, 0, 0)


class _UnderWay:
    """The followed batches of one iterator, by task number, and the last task that arrived.

    `passed` has every batch that the pin-memory thread passed on and the loop has not yet taken from its queue.
    """

    def __init__(self) -> None:
        self.passed: dict[int, Passed] = {}
        self.came: dict[int, int] = {}
        self.pinned: dict[int, Passed] = {}
        self.last = -1


class Arrivals:
    """The followed batches of every iterator with workers. The queue from which its loop takes batches identifies it.

    `lost` says that a fault has ended the following of batches. `parts` divides the wait of each thread.
    """

    def __init__(self) -> None:
        self.parts = WaitParts()
        self._under_way: weakref.WeakKeyDictionary[Any, _UnderWay] = weakref.WeakKeyDictionary()
        self.lost = False

    def note(self, recording: Recording, act: Callable[..., None], *args: Any) -> None:
        """Runs `act`. A fault in it goes to the report and ends the following of batches; recording goes on."""
        if not recording.on or self.lost:
            return
        try:
            act(*args)
        except Exception as error:
            self.lost = True
            recording.fault("following a batch", error)

    def of(self, queue: Any) -> _UnderWay:
        found = self._under_way.get(queue)
        if found is None:
            found = self._under_way[queue] = _UnderWay()
        return found

    def came(self, queue: Any, message: Any) -> None:
        """Notes that the loop has just taken a message from its queue: the number of a task, and the batch.

        The loop may have waited for another one.
        """
        task = message[0]
        if type(task) is int:
            this = self.of(queue)
            this.last = task
            passed = this.passed.pop(task, None)
            if passed is not None:
                self.parts.was_pinned(passed)
            if followed(task):
                this.came[task] = perf_counter_ns()
                this.pinned[task] = passed or _NOT_PINNED

    def pinned(self, this: _UnderWay, task: object, came: _In, thread: int) -> None:
        """Notes that the pin-memory thread now passes on the batch that `came` got last."""
        if type(task) is int:
            this.passed[task] = Passed(came.begun, came.there, came.received, perf_counter_ns(), thread)

    def taken(self, iterator: Any, number_of_pass: int, asked: int, now: int) -> Arrival | None:
        """What is known about the batch that `next()` has just returned; None if the batch is not followed."""
        queue = getattr(iterator, "_data_queue", None)
        this = self._under_way.get(queue) if queue is not None and not self.lost else None
        if this is None:
            return None
        received = getattr(iterator, "_rcvd_idx", None)
        task = received - 1 if received is not None and getattr(iterator, "_in_order", True) else this.last
        came, one = this.came.pop(task, None), this.pinned.pop(task, _NOT_PINNED)
        if came is None or not followed(task, number_of_pass):
            return None
        thread = threading.get_native_id()
        return Arrival(task, thread, asked, came, now, one.received, one.pinned, one.thread, begun=one.begun)


def watch_queues(recording: Recording, arrivals: Arrivals, kind: Any) -> None:
    """Patches the iterator class with workers, so that each arriving batch is noted."""
    get = kind._get_data

    @unseen
    @functools.wraps(get)
    def _get_data(self: Any, *args: Any, **kwargs: Any) -> Any:
        queue = getattr(self, "_data_queue", None)
        found = arrivals.parts.waiting_for(queue, functools.partial(get, self, *args, **kwargs))
        arrivals.note(recording, arrivals.came, queue, found)
        return found

    recording.patches.replace(kind, "_get_data", _get_data)


class _In:
    """A proxy of the workers' queue, used only in the pin-memory thread.

    It notes when the last batch began to come, when all its bytes were there, and when it was unpickled.
    """

    def __init__(self, queue: Any) -> None:
        self._queue = queue
        self.begun = self.there = self.received = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    @unseen
    def get(self, *args: Any, **kwargs: Any) -> Any:
        self.begun = self.there = 0
        found = receiving(self._queue, lambda: self._queue.get(*args, **kwargs), self._begins, self._ends)
        self.received = perf_counter_ns()
        self.begun, self.there = self.begun or self.received, self.there or self.received
        return found

    def _begins(self) -> None:
        self.begun = perf_counter_ns()

    def _ends(self) -> None:
        self.there = perf_counter_ns()


class _Out:
    """A proxy of the loop's queue, used only in the pin-memory thread. It notes each pinned batch."""

    def __init__(self, queue: Any, came: _In, recording: Recording, arrivals: Arrivals) -> None:
        self._queue, self._came, self._recording, self._arrivals = queue, came, recording, arrivals
        self._this, self._thread = arrivals.of(queue), threading.get_native_id()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    @unseen
    def put(self, item: Any, *args: Any, **kwargs: Any) -> Any:
        if type(item) is tuple and item:
            self._arrivals.note(self._recording, self._arrivals.pinned, self._this, item[0], self._came, self._thread)
        return self._queue.put(item, *args, **kwargs)


def watch_pinning(recording: Recording, arrivals: Arrivals, module: Any) -> None:
    """Patches torch's module `pin_memory`: notes when the pin-memory thread gets a batch and when it has pinned it."""
    plain = module._pin_memory_loop

    @unseen
    @functools.wraps(plain)
    def _pin_memory_loop(*args: Any, **kwargs: Any) -> Any:
        if recording.on and not arrivals.lost:
            try:
                in_queue, out_queue, *rest = args
                came = _In(in_queue)
                args = (came, _Out(out_queue, came, recording, arrivals), *rest)
            except Exception as error:
                arrivals.lost = True
                recording.fault("following a batch into pinned memory", error)
        return plain(*args, **kwargs)

    recording.patches.replace(module, "_pin_memory_loop", _pin_memory_loop)
