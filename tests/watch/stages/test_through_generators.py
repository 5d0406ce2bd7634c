"""Streams that pass on a generator function of their own: what that one calls has rows, too."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from fetched_rows import CLOCK
from torch.utils.data import IterableDataset


class Log(IterableDataset[int]):
    """Its samples come from a generator function of its own, through another one."""

    def __init__(self) -> None:
        self.numbers = range(8)

    def encode(self, number: int) -> int:
        CLOCK.burn(100)
        return number

    def encoded(self) -> Iterator[int]:
        for number in self.numbers:
            CLOCK.burn(10)
            yield self.encode(number)

    def examples(self) -> Iterator[int]:
        yield from self.encoded()

    def __iter__(self) -> Iterator[int]:
        return itertools.islice(self.examples(), 0, None, 1)


def test_functions_that_a_generator_function_calls_have_rows(rows: Any) -> None:
    found = rows(Log()).found()
    assert found == {("getitem", "Log.__iter__"): 80, ("function", "Log.encode"): 800}
