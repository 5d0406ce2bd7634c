"""How full the queue of ready batches was when the loop asked for one: from the batches that are followed."""

from __future__ import annotations

from collections.abc import Iterator

from pipebench.watch.read.hand_off import Ends, FollowedBatch, ready_when_asked
from pipebench.watch.record.lines import Arrival, FetchSums, LoaderFound, LoopSums

_KEPT = 4096  # ends of batches in workers, of each loader

Asked = tuple[int, int, Arrival]
"""A batch that the loop has got: its loader, its pass, and when."""


class QueueFill:
    """The mean fill of the queue, from 0 (no batch was ready) to 1 (all that the loader may keep in flight were).

    The workers' part of a batch is written a little later than the loop's. So a point has the batches of the iterations
    before the last point.
    """

    def __init__(self) -> None:
        self._most: dict[int, int] = {}
        self._ends: dict[int, Ends] = {}
        self._asked: list[Asked] = []
        self._before: list[Asked] = []

    def found(self, line: LoaderFound) -> None:
        self._most[line.loader] = line.workers * (line.prefetch_factor or 0)

    def arrived(self, line: LoopSums) -> None:
        self._asked += [(line.loader, line.number_of_pass, one) for one in line.arrivals]

    def made(self, line: FetchSums) -> None:
        ends = self._ends.setdefault(line.loader, {})
        for one in line.handed:
            ends[one.number_of_pass, one.task] = one
        while len(ends) > _KEPT:
            del ends[next(iter(ends))]

    def series(self) -> Iterator[tuple[str, float]]:
        before, self._before, self._asked = self._before, self._asked, []
        loaders = {one[0] for one in before}
        fills = [ready / self._most[loader] for loader in loaders for ready in self._of(loader, before)]
        if fills:
            yield "queue_fill", sum(fills) / len(fills)

    def _of(self, loader: int, asked: list[Asked]) -> list[int]:
        """For each of these batches of this loader, how many were ready when the loop asked for it."""
        if not self._most.get(loader) or loader not in self._ends:
            return []
        got = [(of, one) for which, of, one in asked if which == loader]
        ends, first = self._ends[loader], (got[0][0], got[0][1].task)
        ends = {place: end for place, end in ends.items() if place >= first}  # no later point needs those before
        self._ends[loader] = ends
        batches = [FollowedBatch(loader, of, 0, ends[of, one.task], one) for of, one in got if (of, one.task) in ends]
        return [ready for _, ready in ready_when_asked(batches, ends, self._most[loader])]
