"""The fetch that finds the end of an iterable dataset gives no batch, and what it made for one is in none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from clockwork import Clock, Rows
from torch.utils.data import IterableDataset

from pipebench.watch.record.pace import SINGLE


class Numbers(IterableDataset[int]):
    def __init__(self, clock: Clock, count: int) -> None:
        self.clock, self.count = clock, count

    def __iter__(self) -> Any:
        for one in range(self.count):
            if one == 20:
                raise ValueError("no such number")
            self.clock.burn(10)
            yield one


@pytest.mark.parametrize(
    ("count", "drop_last", "batches", "samples", "unused"),
    [(8, False, 2, 8, 0), (10, False, 3, 10, 0), (10, True, 2, 10, 2), (8, True, 2, 8, 0)],
)
def test_the_last_fetch_is_no_batch(
    count: int, drop_last: bool, batches: int, samples: int, unused: int, tmp_path: Path, monkeypatch: Any
) -> None:
    clock = Clock()
    rows = Rows(Numbers(clock, count), tmp_path, clock, monkeypatch, drop_last=drop_last)
    with pytest.raises(StopIteration):
        while True:
            rows.fetch(range(4))
    sums = rows.sums
    assert (sums.batches, sums.samples, sums.unused, len(sums.single)) == (batches, samples, unused, batches)
    assert sums.busy == 10 * count and not sums.failed


def test_the_samples_of_a_failed_batch_are_in_none(tmp_path: Path, monkeypatch: Any) -> None:
    clock = Clock()
    rows = Rows(Numbers(clock, 30), tmp_path, clock, monkeypatch)
    rows.fetch(range(16))
    rows.sums.pace.count = SINGLE + 1  # an early failure is written at once
    with pytest.raises(ValueError, match="no such number"):
        rows.fetch(range(16))
    assert (rows.sums.batches, rows.sums.failed, rows.sums.samples, rows.sums.unused) == (1, 1, 20, 4)
