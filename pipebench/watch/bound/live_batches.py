"""The live batches behind one pass of the script's loader, for a run that also replays: drawn, discarded, settled.

The script's iterator is the source until it is used up before the script has had as many batches as its pass has;
then the loader is iterated anew behind it. So a pass has as many iterations as without replays.
"""

from __future__ import annotations

import contextlib
import math
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

Now = Callable[[], float]
_SETTLED_S = 0.02  # from the last batch collated to the last one handed over
_POLL_S = 0.002
_QUIET_S = 0.1


class LiveSource:
    """One pass. `given` counts the batches that the script has had of it, of whatever kind.

    `plain` is `next` as torch has it; `reopen` iterates the loader anew (None: that cannot be done). `length` is how
    many batches a pass has: None until an iterable has been used up for the first time. `cold` is set where the loader
    was just started: what follows is start-up, not the steady state.
    """

    def __init__(
        self,
        iterator: Any,
        plain: Callable[[Any], Any],
        given: int,
        length: int | None,
        reopen: Callable[[], Any] | None,
        now: Now = time.perf_counter,
    ) -> None:
        self.iterator, self.plain, self.reopen, self.now = iterator, plain, reopen, now
        self.given = self._drawn = given
        self.length = length
        self.iterable = length is None
        self.workers = int(getattr(iterator, "_num_workers", 0))
        self.in_flight = self.workers * int(getattr(iterator, "_prefetch_factor", 0) or 0)
        self.cold = True
        self._failure: BaseException | None = None
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def over(self) -> bool:
        """Whether the script has had as many batches as this pass has."""
        return self.length is not None and self.given >= self.length

    def draw(self) -> Any:
        """The next live batch. StopIteration where the pass is at its end, and whatever else a loader raises."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        try:
            return self._next()
        except StopIteration:
            if self.length is None:
                self.length = self._drawn
            if self.reopen is None or self.over():
                raise
            self.cold = True
            self._drawn = 0
            self.iterator = self.reopen()
        return self._next()

    def _next(self) -> Any:
        found = self.plain(self.iterator)
        self._drawn += 1
        return found

    def discard(self) -> None:
        """Drops what was made ahead, so that batches come at the rate of the workers."""
        for _ in range(self.in_flight):
            self.draw()

    def settle(self, interval_s: float) -> None:
        """Waits until the workers have nothing left to do: every batch that they may make ahead is made.

        A worker whose part of an iterable is used up never answers what else it was asked for: then the end is that
        none has come for twice as long as a worker takes, where live batches come every `interval_s`.
        """
        if not self.workers:
            return
        patience = 2 * interval_s * self.workers + _QUIET_S if self.iterable else math.inf
        made, changed = self._made(), self.now()
        while made < self.iterator._tasks_outstanding and self.now() < changed + patience:
            if not any(one.is_alive() for one in self.iterator._workers):
                return  # what became of it is said where its batch is asked for
            time.sleep(_POLL_S)
            before, made = made, self._made()
            changed = self.now() if made != before else changed
        time.sleep(_SETTLED_S)

    def _made(self) -> int:
        queues = {id(one): one for one in (self.iterator._worker_result_queue, self.iterator._data_queue)}
        return sum(one.qsize() for one in queues.values())

    def keep_busy(self, interval_s: float) -> None:
        """A thread draws and drops a batch every `interval_s` until `rest`: workers are as busy as with a live loop."""
        self.rest()
        if not self.workers:
            return
        self._ended = ended = threading.Event()

        def draw() -> None:
            due = self.now()
            while not ended.is_set():
                try:
                    self._next()
                except StopIteration:
                    self.cold = True  # nothing is left to draw: the workers are no longer busy
                    return
                except BaseException as error:  # raised where the script asks for its next live batch
                    self._failure = error
                    return
                due = max(due + interval_s, self.now() - interval_s)
                ended.wait(max(0.0, due - self.now()))

        self._thread = threading.Thread(target=draw, name="pipebench-draw", daemon=True)
        self._thread.start()

    def rest(self) -> None:
        """Ends the thread that keeps workers busy; nobody but the caller draws from here on."""
        self._ended.set()
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join()


def length_of(loader: Any) -> int | None:
    """How many batches a pass over a map-style loader has; what an iterable says of itself is not relied upon."""
    data: Any = sys.modules.get("torch.utils.data")
    if loader is None or data is None or isinstance(loader.dataset, data.IterableDataset):
        return None
    with contextlib.suppress(TypeError, NotImplementedError):
        return len(loader)
    return None
