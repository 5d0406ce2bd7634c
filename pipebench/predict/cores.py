"""Threads that share cores, in simulated time. Deterministic and pure.

A simulated thread is a generator. It yields what it does next: `Cpu`, `Blocked`, or `Take` from a queue. All threads
that compute progress at the same rate, so the cores are shared as a fair scheduler shares them (processor sharing). The
rate is that of a common clock: a thread ends when this clock has moved on by its CPU time. So an event costs only one
step in a heap (Parekh and Gallager, A generalized processor sharing approach, 1993, section II).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Generator
from heapq import heappop, heappush
from typing import Any, NamedTuple, TypeAlias

QUOTA_PERIOD_S = 0.1  # the default of Linux and of container runtimes


class Cpu(NamedTuple):
    """Computes for so long, if no other thread wants the cores. `threads` is how many cores it then uses.

    0: it waits for another thread to compute for so long.
    """

    seconds: float
    threads: float = 1.0


class Blocked(NamedTuple):
    """Waits without a core: for storage, a network, a device."""

    seconds: float


class Queue:
    """A queue between threads, without a limit of its own."""

    def __init__(self) -> None:
        self.items: deque[Any] = deque()
        self.waiting: deque[Thread] = deque()


class Take(NamedTuple):
    """Waits for the next item of a queue. The item is the value of the `yield`."""

    queue: Queue


Thread: TypeAlias = Generator[Cpu | Blocked | Take, Any, None]


class Cores:
    """So many cores, and the time `now` in seconds. `others` cores' worth of foreign threads always want to run too.

    With a `quota` below the cores, threads run on all of them until the core-seconds of a period are spent. Then all of
    them wait for the next period, as Linux does it (`cpu.max`, CFS bandwidth control). Foreign threads have no part in
    it.
    """

    def __init__(self, cores: float, others: float = 0.0, quota: float | None = None) -> None:
        if cores <= 0 or (quota is not None and quota <= 0):
            raise ValueError("a machine has more than 0 cores")
        self.cores, self.others = cores, others
        self.now = 0.0
        self._each_period = self._refilled = math.inf
        self._advance = self._to_next_end
        if quota is not None and quota < cores:
            self._each_period, self._refilled = quota * QUOTA_PERIOD_S, QUOTA_PERIOD_S
            self._advance = self._within_quota
        self._left = self._each_period
        self._clock = 0.0
        self._wanted = 0.0
        self._computing: list[tuple[float, int, Thread, float]] = []
        self._blocked: list[tuple[float, int, Thread]] = []
        self._ready: deque[tuple[Thread, Any]] = deque()
        self._events = 0

    def start(self, thread: Thread) -> None:
        self._ready.append((thread, None))

    def put(self, queue: Queue, item: Any) -> None:
        if queue.waiting:
            self._ready.append((queue.waiting.popleft(), item))
        else:
            queue.items.append(item)

    def run(self, main: Thread) -> None:
        """Runs until the thread `main` ends. Raises RuntimeError if every thread waits for an item that never comes."""
        self.start(main)
        ready, begin, advance = self._ready, self._begin, self._advance  # a simulation has a hundred thousand events
        while True:
            while ready:
                thread, value = ready.popleft()
                try:
                    asked = thread.send(value)
                except StopIteration:
                    if thread is main:
                        return
                else:
                    begin(thread, asked)
            advance()

    def _begin(self, thread: Thread, asked: Cpu | Blocked | Take) -> None:
        self._events += 1
        if isinstance(asked, Take):
            if asked.queue.items:
                self._ready.append((thread, asked.queue.items.popleft()))
            else:
                asked.queue.waiting.append(thread)
            return
        seconds = asked.seconds
        if seconds <= 0:
            self._ready.append((thread, None))
        elif isinstance(asked, Cpu):
            self._wanted += asked.threads
            heappush(self._computing, (self._clock + seconds, self._events, thread, asked.threads))
        else:
            heappush(self._blocked, (self.now + seconds, self._events, thread))

    def _to_next_end(self) -> None:
        """Moves to the next end of computing or of blocking."""
        computing, blocked = self._computing, self._blocked
        if not computing:
            if not blocked:
                raise RuntimeError("every thread waits for another one")
            self._wake()
            return
        now, wanted = self.now, self._wanted + self.others
        rate = self.cores / wanted if wanted > self.cores else 1.0
        computed = now + (computing[0][0] - self._clock) / rate
        if blocked and blocked[0][0] < computed:
            self._clock += (blocked[0][0] - now) * rate
            self._wake()
        else:
            self.now = computed
            self._end()

    def _within_quota(self) -> None:
        """Moves to the next end of computing, of blocking, of the quota, or of its period."""
        if not self._computing and not self._blocked:
            raise RuntimeError("every thread waits for another one")
        rate = self.cores / max(self.cores, self._wanted + self.others) if self._left else 0.0
        use = rate * self._wanted
        computed = self.now + (self._computing[0][0] - self._clock) / rate if self._computing and rate else math.inf
        woken = self._blocked[0][0] if self._blocked else math.inf
        spent = self.now + self._left / use if use else math.inf
        at = min(computed, woken, spent, self._refilled)
        self._clock += (at - self.now) * rate
        self._left -= (at - self.now) * use
        self.now = at
        if at == self._refilled:
            self._left, self._refilled = self._each_period, at + QUOTA_PERIOD_S
        elif at == spent:
            self._left = 0.0
        elif computed <= woken:
            self._end()
        else:
            self._wake()

    def _end(self) -> None:
        """The thread that has computed first goes on."""
        self._clock, _, thread, threads = heappop(self._computing)
        self._wanted = max(0.0, self._wanted - threads) if self._computing else 0.0
        self._ready.append((thread, None))

    def _wake(self) -> None:
        """The thread that was blocked for the shortest time goes on."""
        self.now, _, thread = heappop(self._blocked)
        self._ready.append((thread, None))
