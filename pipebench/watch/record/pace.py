"""When a process writes what it has added up: after each of its first events, later at intervals that grow."""

from __future__ import annotations

SINGLE = 256  # batches and iterations of which each has figures of its own; fewer in later passes
_SHORTEST_NS, _SETTLED_NS = 50_000_000, 250_000_000
_OF_ITS_AGE = 20  # so it is settled after five seconds


def shortest_ns(age_ns: int) -> int:
    """The shortest time between two lines of a run of that age, in nanoseconds: 50 ms at first, then 250 ms.

    A line takes 60,000 to 250,000 instructions. What is not yet written is lost if the process is killed.
    """
    return max(_SHORTEST_NS, min(_SETTLED_NS, age_ns // _OF_ITS_AGE))


class Pace:
    """Decides when sums are due: after each of the first events, later at intervals that grow with the run's age.

    The records therefore grow with the logarithm of the run's length. A killed process loses at most the last
    `shortest_ns` of its records, or 50 ms times (1 + `earlier`), or those of 0.05 % of the run (0.2 % if it has a
    predecessor: a loader that starts new workers for each pass has thousands of them). `first` is how many come one by
    one.
    """

    def __init__(self, began: int, earlier: int = 0, first: int = SINGLE) -> None:
        self.began = self._next = began
        self.count = 0
        self.each = max(2, first // (1 + earlier))
        self.shortest = _SHORTEST_NS * (1 + earlier)
        self.share = 500 if earlier else 2000

    def due(self, now: int) -> bool:
        self.count += 1
        if self.count > self.each and now < self._next:
            return False
        age = now - self.began
        self._next = now + max(shortest_ns(age), self.shortest, age // self.share)
        return True
