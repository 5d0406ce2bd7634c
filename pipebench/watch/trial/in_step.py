"""How the ranks of one training take an order at the same batch, by a file in a folder that they share.

The supervisor gives its orders to rank 0. Rank 0 adds the batch at which an order begins, a few ahead of its own, and
hands it to the others. Ranks that train together are a step or so apart, so each of them knows of the order before it
comes to this batch. Nothing goes through the training's process group, and no rank waits. A rank that has gone further
does not try it, and says so.

The jobs of a command can follow each other at the same address, and so in the same file. A rank takes no order that is
older than its own process: it was for another job.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter_ns

from pipebench.watch.record.orders import FILE, Order, Orders, give
from pipebench.watch.record.program_lines import RankFound

AHEAD = 8  # batches: ranks that gather gradients meet only every few of them
LATE = "ranks-apart"


class InStep:
    """The orders of one of several ranks. `own` is the folder of this process, `shared` that of all programs.

    `since` is when the process began, on the clock `now`, which all processes of a machine share.
    """

    def __init__(
        self, own: str, shared: str, found: RankFound, since: int, now: Callable[[], int] = perf_counter_ns
    ) -> None:
        self._since, self._now = since, now
        self._shared, self._name = shared, f"{FILE}-{zlib.crc32(f'{found.of} {found.meeting}'.encode()):08x}"
        self._own = Orders(own) if found.rank == 0 else None
        self._all = Orders(shared, self._name)
        self._next: Order | None = None
        self._given: Counter[int] = Counter()

    def came(self, number: int | None) -> None:
        """Notes that the script got a batch of the loader with this number."""
        if number is not None:
            self._given[number] += 1

    def latest(self) -> Order | None:
        """The new order, as soon as the script has got as many batches as its `at` says; None before, and after."""
        if self._own is not None and (order := self._own.latest()) is not None:
            give(self._shared, replace(order, at=self._got(order) + AHEAD, given=self._now()), self._name)
        newest = self._all.latest()
        if newest is not None and newest.given >= self._since:
            self._next = newest
        order = self._next
        if order is None or self._got(order) < order.at:
            return None
        self._next = None
        if self._got(order) > order.at and not order.leave:
            return Order(order.number, order.loader, problem=LATE if order.settings is not None else "")
        return order

    def _got(self, order: Order) -> int:
        """The batches from the loader of an order; those from all loaders if it names none."""
        return self._given[order.loader] if order.loader else self._given.total()
