"""Draws and discards the live batches of one pass of the script's loader, for a run that also replays.

The script's own iterator is the first source. It may be used up before the script has had as many batches as a pass
has. Then the loader is iterated again in its place. So a pass has as many iterations as without replays.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any

Now = Callable[[], float]
_SETTLED_S = 0.02  # allows the last batch to go from its collate to the queue
_POLL_S = 0.002
_QUIET_S = 0.1


class LiveSource:
    """One pass. `given` counts all batches of the pass that the script has had, live and replayed.

    `plain` is torch's own `next`. `reopen` iterates the loader again (None: this is not possible). `length` is how many
    batches a pass has; for an iterable it is None until the iterable has been used up once. `cold` is true if the
    loader has just been started: the next batches are start-up, not the steady state. `raised` is what the last `draw`
    raised: an error of the script's loader.
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
        self.raised: BaseException | None = None
        self._failure: BaseException | None = None
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def over(self) -> bool:
        """Whether the script has had all batches of this pass."""
        return self.length is not None and self.given >= self.length

    def draw(self) -> Any:
        """The next live batch. Raises StopIteration at the end of the pass, and any error that the loader raises."""
        self.raised = None
        try:
            return self._drawn_now()
        except BaseException as error:
            self.raised = error
            raise

    def _drawn_now(self) -> Any:
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
        """Drops the prefetched batches, so that the next batches come at the rate of the workers."""
        for _ in range(self.in_flight):
            self.draw()

    def settle(self, interval_s: float) -> None:
        """Waits until the workers are idle, because they have made every batch that they may prefetch.

        A worker whose part of an iterable is used up never answers its other requests. With an iterable, the wait
        therefore also ends when no batch has come for twice the time that a worker takes for one (plus `_QUIET_S`).
        `interval_s` is the time between live batches; a worker takes this times the number of workers.
        """
        if not self.workers:
            return
        patience = 2 * interval_s * self.workers + _QUIET_S if self.iterable else math.inf
        made, changed = self._made(), self.now()
        while made < self.iterator._tasks_outstanding and self.now() < changed + patience:
            if not any(one.is_alive() for one in self.iterator._workers):
                return  # its error is raised when its batch is asked for
            time.sleep(_POLL_S)
            before, made = made, self._made()
            changed = self.now() if made != before else changed
        time.sleep(_SETTLED_S)

    def _made(self) -> int:
        queues = {id(one): one for one in (self.iterator._worker_result_queue, self.iterator._data_queue)}
        return sum(one.qsize() for one in queues.values())

    def keep_busy(self, interval_s: float) -> None:
        """Starts a thread that draws and drops a batch every `interval_s`, until `rest` is called.

        So the workers are as busy as with a live loop.
        """
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
                    self.cold = True  # no batch is left to draw: the workers are no longer busy
                    return
                except BaseException as error:  # raised when the script asks for its next live batch
                    self._failure = error
                    return
                due = max(due + interval_s, self.now() - interval_s)
                ended.wait(max(0.0, due - self.now()))

        self._thread = threading.Thread(target=draw, name="pipebench-draw", daemon=True)
        self._thread.start()

    def rest(self) -> None:
        """Ends the thread that keeps workers busy. From then on only the caller draws."""
        self._ended.set()
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join()
