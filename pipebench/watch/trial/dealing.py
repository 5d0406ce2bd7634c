"""Deals the index lists of one sampler to several loaders. The script gets its batches in the sampler's order.

One loader at a time has an open hand. When its hand is closed, it gives the batches that it was asked for, and then the
next loader begins with the sampler's next index list. So no batch is made twice and none is left out, the order is the
sampler's, and a loader that waits for its turn has nothing to do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from pipebench.watch.record.from_handlers import from_a_handler


class Deal:
    """The index lists of one pass that no loader has yet. What is taken back is dealt again first."""

    def __init__(self, stream: Iterator[Any]) -> None:
        self.stream = stream
        self.back: deque[Any] = deque()
        self._error: Exception | None = None

    def next(self) -> Any:
        """The next index list. Raises StopIteration at the end of the sampler, and again what the sampler raises."""
        if self.back:
            return self.back.popleft()
        if self._error is not None:
            raise self._error
        try:
            return next(self.stream)
        except StopIteration:
            raise
        except Exception as error:  # whichever loader asked first, the script must get it
            if not from_a_handler(error):
                self._error = error
            raise


class Hand:
    """The iterator from which one loader gets its index lists. A closed hand looks like the end of the sampler.

    `asked` holds the index lists of the batches that were asked for and have not come, by their task numbers.
    """

    def __init__(self, deal: Deal) -> None:
        self.deal = deal
        self.open = False
        self.owner: Callable[[], Any] = _nothing  # the loader's iterator, which holds this hand
        self.asked: dict[int, Any] = {}

    def __iter__(self) -> Hand:
        return self

    def __next__(self) -> Any:
        if not self.open:
            raise StopIteration
        found = self.deal.next()
        self.asked[getattr(self.owner(), "_send_idx", 0)] = found
        return found

    def came(self, under_way: Any) -> None:
        """Forgets the batches that are no longer under way."""
        for task in [one for one in self.asked if one not in under_way]:
            del self.asked[task]

    def give_back(self) -> None:
        """Returns what was asked for and has not come, so that another loader makes these batches, in order."""
        self.open = False
        self.deal.back.extendleft(self.asked[task] for task in sorted(self.asked, reverse=True))
        self.asked.clear()


class DealtSampler:
    """Stands in for the sampler of a loader: it gives one hand in every pass. It is as long as `plain`."""

    def __init__(self, hand: Hand, plain: Any) -> None:
        self.hand, self.plain = hand, plain

    def __iter__(self) -> Hand:
        return self.hand

    def __len__(self) -> int:
        return len(self.plain)


def _nothing() -> None:
    return None
