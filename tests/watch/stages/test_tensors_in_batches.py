"""How many tensors a batch holds: of dicts, lists, and objects of the user's own."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from clockwork import Clock, Rows

from pipebench.watch.worker.contents import to_hand_over


class Pair(NamedTuple):
    one: torch.Tensor
    two: torch.Tensor


def _tensor() -> torch.Tensor:
    return torch.zeros(2)


ITSELF: list[Any] = [_tensor()]
ITSELF.append(ITSELF)
SHARED = _tensor()


@pytest.mark.parametrize(
    ("batch", "tensors"),
    [
        (_tensor(), 1),
        ({f"column {one}": _tensor() for one in range(300)}, 300),
        ([_tensor(), ("a", [_tensor(), 3])], 2),
        (Pair(_tensor(), _tensor()), 2),
        (SimpleNamespace(x=_tensor(), store={"y": _tensor()}), 2),
        ((SHARED, SHARED), 1),
        (ITSELF, 1),
        ([1.0] * 10**6, 0),
        (None, 0),
        ((torch, type(ITSELF)), 0),
    ],
)
def test_tensors_are_counted_wherever_they_are(batch: Any, tensors: int) -> None:
    assert to_hand_over(batch)[:3] == (1, tensors, 8 * tensors)


def test_a_sparse_tensor_has_no_size() -> None:
    assert to_hand_over([torch.zeros(3, 3).to_sparse(), _tensor()])[:2] == (1, 2)


def test_arrays_are_counted_by_their_bytes() -> None:
    assert to_hand_over({"image": [np.zeros((10, 10), np.float32)] * 2, "more": np.zeros(5)}) == (1, 0, 0, 440)


class Rows300:
    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {f"column {one}": _tensor() for one in range(300)}

    def __len__(self) -> int:
        return 8


def test_they_are_counted_in_the_script_s_own_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Rows(Rows300(), tmp_path, Clock(), monkeypatch, collate=lambda samples: samples[0])
    rows.fetch([0, 1])
    rows.fetch([2, 3])
    assert rows.sums.held[:2] == (2, 600)
