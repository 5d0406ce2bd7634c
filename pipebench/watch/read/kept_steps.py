"""The kept steps of one rank in little memory: of many ranks of a long run, they are millions. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import overload

from pipebench.results.ranks import StepOfRank

Places = dict[tuple[int, bytes, bytes], dict[int, int]]
"""Where steps stand, by the numbers of all: ranks of one training keep the same, so they share one dictionary."""


_MOST = 2**63 - 1


def _column(values: Sequence[int]) -> array[int]:
    try:
        return array("q", values)
    except OverflowError:  # a report may hold any number
        return array("q", [min(one, _MOST) for one in values])


class KeptSteps(Sequence[StepOfRank]):
    """The steps of a rank as columns of numbers. Each step is made when it is asked for."""

    def __init__(self, steps: Iterable[StepOfRank]) -> None:
        self.columns = [_column(one) for one in zip(*steps, strict=True)]

    def __len__(self) -> int:
        return len(self.columns[0]) if self.columns else 0

    @overload
    def __getitem__(self, place: int) -> StepOfRank: ...

    @overload
    def __getitem__(self, place: slice) -> list[StepOfRank]: ...

    def __getitem__(self, place: int | slice) -> StepOfRank | list[StepOfRank]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        if not self.columns:
            raise IndexError(place)
        number, wait, work, outside, made = self.columns
        return StepOfRank(number[place], wait[place], work[place], outside[place], made[place])

    def places(self, begin: int, known: Places) -> dict[int, int]:
        """The place of each step after the first `begin` ones of its loop, by its number."""
        if not self.columns:
            return {}
        key = begin, self.columns[0].tobytes(), self.columns[-1].tobytes()
        if key not in known:
            known[key] = {step.number: place for place, step in enumerate(self) if step.so_far > begin}
        return known[key]


class Counted(Mapping[int, StepOfRank]):
    """The steps of a rank after the first `begin` ones of its loop, by their numbers."""

    def __init__(self, steps: Sequence[StepOfRank], begin: int, known: Places) -> None:
        kept = steps if isinstance(steps, KeptSteps) else KeptSteps(steps)
        self._places = kept.places(begin, known)
        _, self._wait, self._work, self._outside, self._made = kept.columns or [array("q")] * 5

    def __getitem__(self, number: int) -> StepOfRank:
        place = self._places[number]
        found = number, self._wait[place], self._work[place], self._outside[place], self._made[place]
        return tuple.__new__(StepOfRank, found)  # in half the time of its own: this is asked millions of times

    def __iter__(self) -> Iterator[int]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)
