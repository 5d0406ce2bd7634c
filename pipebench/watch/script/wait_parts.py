"""Divides the wait for a batch: the sampler, the workers, receiving, unpickling and pinning.

With workers, `next()` takes a batch from a queue, then asks the sampler for the indices of a later batch and sends them
to a worker. The queue waits for a message, receives its bytes and unpickles them. With a pin-memory thread, that thread
does this, and the loop waits for it. Without workers, `next()` asks the sampler, makes the batch and may pin it.

A thread is in exactly one part at a time, so the parts add up to the wait. The parts are `record_file.WAIT_PARTS`.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from pipebench.watch.record.exclusive_time import REST, StageTimer, local
from pipebench.watch.record.patches import Patches, unseen
from pipebench.watch.record.record_file import MAKE, PIN, RECEIVE, SAMPLER, SEND, UNPICKLE, WAIT_PARTS, WORKERS


class Passed(NamedTuple):
    """When the pin-memory thread began to receive a batch, had its bytes, had unpickled it, and had pinned it.

    `thread` is the system's number of that thread.
    """

    begun: int
    there: int
    received: int
    pinned: int
    thread: int


class WaitParts(threading.local):
    """The time of each part of the current `next()` of this thread, or of the construction of an iterator.

    `asked` and `got` bound its last wait for a queue. `new_workers_ns` is what the sampler took before torch began it
    once more: see `watch_sampler`. What happens inside a fetch is not counted: there, a loader is a part of a sample.
    """

    def __init__(self) -> None:
        self.timer = StageTimer()
        self.asked = self.got = self.new_workers_ns = 0

    def begin(self) -> None:
        self.timer.sums[: len(WAIT_PARTS)] = [0] * len(WAIT_PARTS)
        self.new_workers_ns = 0
        self.timer.begin()

    def begins_again(self) -> None:
        """Notes that torch is about to begin the sampler again, because the workers are new."""
        self.new_workers_ns = self.timer.sums[SAMPLER]

    def take(self) -> list[int]:
        """Nanoseconds of each part since `begin`."""
        self.timer.switch(REST)
        return self.timer.sums[: len(WAIT_PARTS)]

    @unseen
    def waiting_for(self, queue: Any, get: Callable[[], Any]) -> Any:
        """Runs `get`, which takes one message from `queue`."""
        timer = self.timer
        if local.timer is not None:
            return get()
        before = timer.switch(WORKERS)
        self.asked = timer.last
        try:
            begins, ends = functools.partial(timer.switch, RECEIVE), functools.partial(timer.switch, UNPICKLE)
            return receiving(queue, get, begins, ends)
        finally:
            timer.switch(before)
            self.got = timer.last

    def was_pinned(self, batch: Passed) -> None:
        """Divides the last wait for a queue by what the pin-memory thread did for `batch` in that time.

        The thread makes one batch after the other, and the loop takes them in the same order. So in this wait, the
        thread did nothing for earlier batches.
        """
        sums = self.timer.sums
        for part, (begin, end) in zip((RECEIVE, UNPICKLE, PIN), itertools.pairwise(batch[:4]), strict=True):
            both = max(0, min(end, self.got) - max(begin, self.asked))
            sums[part] += both
            sums[WORKERS] -= both


class _Receiving:
    """Stands for the `_recv_bytes` of a queue during one `get`. Calls `begins` and `ends` around it."""

    def __init__(self, plain: Callable[..., Any], begins: Callable[[], object], ends: Callable[[], object]) -> None:
        self._plain, self._begins, self._ends = plain, begins, ends

    @unseen
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._begins()
        try:
            return self._plain(*args, **kwargs)
        finally:
            self._ends()


@unseen
def receiving(queue: Any, get: Callable[[], Any], begins: Callable[[], object], ends: Callable[[], object]) -> Any:
    """Runs `get`. Calls `begins` when the first bytes of a message are there, and `ends` when all are.

    A queue of processes keeps the method that receives bytes in an attribute of its own. It is replaced during this one
    call. Other queues have no such attribute and are left alone.
    """
    plain = getattr(queue, "__dict__", {}).get("_recv_bytes")
    if plain is None or isinstance(plain, _Receiving):
        return get()
    queue._recv_bytes = _Receiving(plain, begins, ends)
    try:
        return get()
    finally:
        queue._recv_bytes = plain


def in_part(parts: WaitParts, function: Callable[..., Any], part: int) -> Callable[..., Any]:
    """Wraps `function` so that its time is in `part`."""

    @unseen
    @functools.wraps(function)
    def parted(*args: Any, **kwargs: Any) -> Any:
        if local.timer is not None:
            return function(*args, **kwargs)
        timer = parts.timer
        before = timer.switch(part)
        try:
            return function(*args, **kwargs)
        finally:
            timer.switch(before)

    return parted


def watch_sampler(patches: Patches, parts: WaitParts, module: Any) -> None:
    """Patches torch's module of loaders. Samplers and batch samplers run inside `_next_index` of its iterators.

    A sampler whose `__iter__` makes a whole list does its work before. The module calls `iter` for samplers only: in
    the constructor of an iterator, and in `_reset`, which a constructor with workers calls as well. So the list is made
    twice for a pass with new workers, and once for one with workers that live on.
    """
    base = module._BaseDataLoaderIter
    patches.replace(base, "_next_index", in_part(parts, base._next_index, SAMPLER))
    patches.replace(module, "iter", in_part(parts, vars(module).get("iter", iter), SAMPLER))


def watch_sending(patches: Patches, parts: WaitParts, with_workers: Any) -> None:
    """Patches the iterator class with workers: sending indices, without the sampler that is asked for them."""
    patches.replace(with_workers, "_try_put_index", in_part(parts, with_workers._try_put_index, SEND))


def watch_making(parts: WaitParts, fetcher: Any) -> Any:
    """Times the making of a batch in the script's own process. `fetcher` is an internal object of torch."""
    fetcher.fetch = in_part(parts, fetcher.fetch, MAKE)
    return fetcher


def watch_pinning_alone(patches: Patches, parts: WaitParts, alone: Any) -> None:
    """Patches the iterator class without workers. After the batch is made, what is left of `_next_data` pins it."""
    plain = alone._next_data

    @unseen
    @functools.wraps(plain)
    def _next_data(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = plain(self, *args, **kwargs)
        if local.timer is None and getattr(self, "_pin_memory", False):
            parts.timer.current = PIN
            parts.timer.switch(REST)
        return found

    patches.replace(alone, "_next_data", _next_data)
