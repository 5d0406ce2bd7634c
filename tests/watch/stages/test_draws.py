"""Whether batches draw random numbers is noted for the first ones of a process."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from clockwork import Clock, Rows

from pipebench.watch.worker.draws import CHECKED


@pytest.mark.parametrize(
    ("draw", "drew"),
    [
        (random.random, True),
        (lambda: torch.rand(1), True),
        (lambda: np.random.rand(), True),
        (lambda: np.random.default_rng(0).random(), False),  # its own: the same each time here
        (lambda: None, False),
    ],
)
def test_of_the_first_batches(
    draw: Callable[[], Any], drew: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Data:
        def __getitem__(self, index: int) -> int:
            draw()
            return index

    found = Rows(Data(), tmp_path, Clock(), monkeypatch)
    for _ in range(CHECKED + 2):
        assert found.fetch([1, 2]) == [1, 2]
    assert [one.drew for one in found.sums.single] == [*[drew] * CHECKED, False, False]


def test_a_check_changes_no_random_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Data:
        def __getitem__(self, index: int) -> tuple[float, ...]:
            return random.random(), float(torch.rand(1)), float(np.random.rand())

    def drawn(fetch: Callable[[Any], Any]) -> Any:
        random.seed(1), torch.manual_seed(1), np.random.seed(1)
        return [fetch([0]) for _ in range(CHECKED + 1)]

    assert drawn(Rows(Data(), tmp_path, Clock(), monkeypatch).fetch) == drawn(lambda indices: [Data()[0]])
