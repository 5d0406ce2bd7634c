"""Follows the batches of a loader that one thread iterates and another thread trains on.

The first thread puts the batches into a queue, and the second takes them from it. The loop's wait is then the time in
that queue's `get`. A future of an executor is as a queue for one batch, whose `get` is `result`. These classes are
patched only when a loader is first iterated in another thread than the main one.

An item is a batch if it holds that very object, or tensors or arrays: the thread may hand on a copy, as on a device. It
is then the first item since the thread took the batch.
"""

from __future__ import annotations

import functools
import os
import queue
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

from pipebench.watch.record.exclusive_time import local
from pipebench.watch.record.patches import unseen
from pipebench.watch.record.record_file import OTHER, WAIT, WAIT_PARTS, WORKERS
from pipebench.watch.script.passes import Pass
from pipebench.watch.script.phases import LoopPhases
from pipebench.watch.script.simple_queues import stand_in

_FUTURES = "concurrent.futures._base"
_QUEUES = "multiprocessing.queues"  # torch's own are of this class: what is put and taken inside `next()` is no item
_ITEMS = 8  # of an item that are looked at


class _Mark:
    """One item in a queue: the pass whose batch it is, and the thread that put it there."""

    def __init__(self, source: Pass) -> None:
        self.source, self.thread = source, threading.get_ident()


class _Fed:
    """A queue with batches in it. `marks` has one entry for each item, None for what is no batch.

    `current` is the loop of the thread that takes them. It also stands for the iterator of that loop.
    """

    def __init__(self) -> None:
        self.marks: deque[_Mark | None] = deque()
        self.current: Pass | None = None
        self.source: Pass | None = None
        self.queue: Callable[[], Any] = lambda: None

    def gets(self, source: Pass) -> _Mark:
        """Notes a batch of `source`, which is about to be put here."""
        source.silent, self.source = True, source
        mark = _Mark(source)
        self.marks.append(mark)
        return mark

    @property
    def over(self) -> bool:
        """Whether the loader has ended, and no batch of it is left in the queue."""
        ended = self.source is not None and self.source.began is None
        return ended and (not self.marks or self.queue() is None)


class _Asking(threading.local):
    """When this thread began to wait for an item of a queue; None if it does not."""

    since: int | None = None
    of = 0  # the `id` of the queue


class Relays:
    """The queues of one process through which batches go from one thread to another."""

    def __init__(self, loop: LoopPhases) -> None:
        self.loop = loop
        self._fed: weakref.WeakKeyDictionary[Any, _Fed] = weakref.WeakKeyDictionary()
        self._open: list[_Fed] = []  # queues die before their loops are known to be over
        self._patched = False
        self._asking = _Asking()
        self._simple: Any = None
        self._promised: weakref.WeakKeyDictionary[Any, tuple[_Fed, _Mark]] = weakref.WeakKeyDictionary()
        self._by_futures: dict[int, _Fed] = {}  # by the numbers of loaders

    def install(self) -> None:
        """Lets queues that are made from now on be of a class that can be changed."""
        self._simple = stand_in(self.loop.recording.patches)

    def drawn(self, iterator: Any, batch: object) -> None:
        """Notes a batch that a thread beside the main one has just taken from a loader (None: it got none)."""
        this = self.loop.passes.get(iterator)
        if this is not None and batch is not None:
            this.batch, this.handed = id(batch), False

    def draws(self) -> None:
        """Notes that a thread beside the main one is about to take a batch from a loader."""
        if not self._patched:
            self._patched = True
            self._watch_queues()

    def end_those_over(self) -> None:
        """Ends the loops whose loader has ended, because a loader is about to be iterated."""
        for fed in list(self._open):
            if fed.over:
                self._leave(fed)

    def finish(self) -> None:
        """Ends the loops whose last batch was taken: nothing else says that they are over."""
        for fed in list(self._open):
            if not fed.marks or fed.over:
                self._leave(fed)

    def _watch_queues(self) -> None:
        kinds = [queue.Queue, self._simple, getattr(sys.modules.get(_QUEUES), "Queue", None)]
        for kind in [one for one in kinds if one is not None]:
            own = ("put", "put_nowait"), ("get", "get_nowait")  # those of Queue call `put` and `get`
            puts, gets = own if kind is self._simple else (("put",), ("get",))
            for name in puts:
                self._watch_put(kind, name)
            for name in gets:
                self._watch_get(kind, name)
        future = getattr(sys.modules.get(_FUTURES), "Future", None)
        if future is not None:
            self._watch_futures(future)

    def _watch_put(self, kind: Any, name: str) -> None:
        put = getattr(kind, name)

        @unseen
        @functools.wraps(put)
        def watched_put(own: Any, item: Any, *args: Any, **kwargs: Any) -> None:
            fed: list[_Fed] = []
            self._guarded(lambda: fed.extend(self._puts(own, item)))
            try:
                put(own, item, *args, **kwargs)
            except BaseException:  # the queue is full: the item is not in it
                if fed and fed[0].marks:
                    fed[0].marks.pop()
                raise

        self.loop.recording.patches.replace(kind, name, watched_put)

    def _watch_get(self, kind: Any, name: str) -> None:
        get = getattr(kind, name)

        @unseen
        @functools.wraps(get)
        def watched_get(own: Any, *args: Any, **kwargs: Any) -> Any:
            self._guarded(lambda: self._asks(own))
            try:
                found = get(own, *args, **kwargs)
            except queue.Empty:  # the wait goes on with the next call, unless the loader has ended
                self._guarded(lambda: self._end_if_over(own))
                raise
            self._guarded(lambda: self._came(own))
            return found

        self.loop.recording.patches.replace(kind, name, watched_get)

    def _watch_futures(self, kind: Any) -> None:
        set_result, result = kind.set_result, kind.result

        @unseen
        @functools.wraps(set_result)
        def watched_set(own: Any, item: Any, *args: Any, **kwargs: Any) -> None:
            self._guarded(lambda: self._promises(own, item))
            set_result(own, item, *args, **kwargs)

        @unseen
        @functools.wraps(result)
        def watched_result(own: Any, *args: Any, **kwargs: Any) -> Any:
            self._guarded(lambda: self._asks(own))
            found = result(own, *args, **kwargs)  # where it has none in time, the wait goes on with the next call
            self._guarded(lambda: self._kept(own))
            return found

        patches = self.loop.recording.patches
        patches.replace(kind, "set_result", watched_set)
        patches.replace(kind, "result", watched_result)

    def _guarded(self, act: Callable[[], object]) -> None:
        """Runs `act`, unless nothing is recorded, this thread fetches a batch, or this process is a worker."""
        recording = self.loop.recording
        if recording.on and local.timer is None and recording.pid == os.getpid():
            recording.guarded("following a batch through a queue", act)

    def _puts(self, own: Any, item: object) -> list[_Fed]:
        this, fed = self._source_of(item), self._fed.get(own)
        if this is not None:
            fed = self._fed.setdefault(own, fed or _Fed())
            fed.queue = weakref.ref(own)
            fed.gets(this)
        elif fed is not None:
            fed.marks.append(None)
        return [fed] if fed is not None else []

    def _source_of(self, item: object) -> Pass | None:
        """The loop of this thread, if the item is the batch that it has just taken from a loader."""
        here = self.loop.here
        this = here.open[-1] if here.open and not here.main else None
        if this is None or this.trained or this.waiting or this.batch is None:
            return None
        if not _holds(item, this.batch) and (this.handed or not _has_arrays(item)):
            return None
        this.handed = True
        return this

    def _promises(self, own: Any, item: object) -> None:
        this = self._source_of(item)
        if this is not None:
            fed = self._by_futures.setdefault(this.loader, _Fed())
            fed.queue = lambda: self
            self._promised[own] = fed, fed.gets(this)

    def _kept(self, own: Any) -> None:
        """A future gave its result: a batch; or else, if the loader has ended, that it did."""
        asked, self._asking.since = self._asking.since, None
        fed, mark = self._promised.pop(own, (None, None))
        if asked is None:
            return
        if fed is not None and mark is not None:
            fed.marks.remove(mark)
            if mark.thread != threading.get_ident():
                self._batch(fed, mark.source, asked)
            return
        for one in list(self._by_futures.values()):
            if not one.marks:
                self._ended(one, asked)

    def _end_if_over(self, own: Any) -> None:
        """Ends the loop over a queue that is empty, if the loader has ended as well."""
        fed = self._fed.get(own)
        if fed is not None and fed.current is not None and fed.over:
            self._leave(fed)
            self._asking.since = None

    def _asks(self, own: Any) -> None:
        """The wait of this thread begins, unless it has gone on since an earlier `get` that found nothing."""
        here = self.loop.here
        if here.open and here.open[-1].waiting:
            return  # torch's own queue of pinned batches, inside `next()`
        if self._asking.since is not None:
            self._end_if_over(own)
        if self._asking.since is None or (self._asking.since, self._asking.of) != (here.mark, id(own)):
            self.loop.defer()
            self._asking.since, self._asking.of = here.mark, id(own)

    def _came(self, own: Any) -> None:
        asked, self._asking.since = self._asking.since, None
        fed = self._fed.get(own)
        if fed is None or not fed.marks or asked is None:
            return
        mark = fed.marks.popleft()
        if mark is None:
            self._ended(fed, asked)
        elif mark.thread != threading.get_ident():
            self._batch(fed, mark.source, asked)

    def _batch(self, fed: _Fed, source: Pass, asked: int) -> None:
        loop, this = self.loop, fed.current
        if this is None or this.place != source.place:
            self._leave(fed)
            self._begin(fed, source)
            return
        if this not in loop.here.open:
            return  # another thread takes batches from the same queue
        loop.name(OTHER)
        this.close(asked)
        loop.count(this)
        this.began = asked if loop.recording.on else None
        self._waited(this, asked, last=False)
        loop.recorded(this)

    def _begin(self, fed: _Fed, source: Pass) -> None:
        """A new loop, with its first batch. What the thread did until it asked is outside; the wait is start-up."""
        loop = self.loop
        loop.end_bare()
        loop.name(OTHER)
        loop.loop_begins()
        loop.arrivals.parts.begin()
        this = fed.current = loop.passes[fed] = Pass(loop.recording, *source.place, loop.device, loop.write_own)
        loop.starts(this)
        this.began = loop.here.mark
        this.beside = not loop.here.main
        loop.here.open.append(this)
        self._open.append(fed)

    def _waited(self, this: Pass, asked: int, last: bool) -> None:
        loop = self.loop
        loop.spend(WAIT)
        parts = [0] * len(WAIT_PARTS)
        parts[WORKERS] = loop.here.mark - asked
        this.waited = parts
        loop.ends_wait(this, parts, last)

    def _ended(self, fed: _Fed, asked: int) -> None:
        """An item that is no batch came. If the loader has ended, it says so to the loop."""
        this, loop = fed.current, self.loop
        if this is None or this not in loop.here.open or fed.source is None or fed.source.began is not None:
            return
        loop.name(OTHER)
        this.close(asked)
        loop.count(this)
        self._waited(this, asked, last=True)
        this.finish("exhausted")
        loop.recorded(this)
        this.began = fed.current = None
        loop.here.open.remove(this)
        self._open.remove(fed)

    def _leave(self, fed: _Fed) -> None:
        """Ends a loop whose thread has taken no more batches. Its last iteration ended with the thread's last event."""
        this, loop, fed.current = fed.current, self.loop, None
        if fed in self._open:
            self._open.remove(fed)
        if this is None or this.began is None:
            return
        if this in loop.here.open:
            this.close(loop.here.mark - loop.here.unnamed)
            loop.count(this)
            loop.here.open.remove(this)
        this.finish("left")
        this.began = None


def _holds(item: object, batch: int) -> bool:
    """Whether `item` is the batch with this `id`, or a tuple, list or dict with it."""
    return id(item) == batch or any(id(one) == batch for one in _inside(item))


def _inside(item: object) -> list[Any]:
    inside = item.values() if isinstance(item, dict) else item if isinstance(item, (tuple, list)) else ()
    return list(inside)[:_ITEMS]


def _has_arrays(item: object) -> bool:
    """Whether `item` is a tensor or an array, or a tuple, list or dict with some, also within such ones."""
    inside = _inside(item)
    return any(map(_is_array, (item, *inside, *(one for inner in inside for one in _inside(inner)))))


def _is_array(one: object) -> bool:
    """Whether this is a tensor or an array, by its class: no code of the script runs."""
    return all(hasattr(type(one), name) for name in ("shape", "dtype", "__getitem__"))
