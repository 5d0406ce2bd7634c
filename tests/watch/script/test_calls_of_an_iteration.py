"""How much of ours runs in the loop's thread in each iteration. It is counted, because times differ."""

from __future__ import annotations

import sys
from collections import Counter
from types import FrameType

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from pipebench import watching
from pipebench.watch.record.patches import is_ours

_SETTLED, _COUNTED, _SAMPLES = 310, 20, 4  # iterations, of which the first have more; samples of a batch


class Rows(Dataset):
    def __len__(self) -> int:
        return _SAMPLES * (_SETTLED + _COUNTED)

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((8,), float(index))


def _calls(workers: int) -> Counter[str]:
    """The functions of ours that are called in that settled iteration in which they are fewest."""
    model = torch.nn.Linear(8, 1)
    optimiser = torch.optim.SGD(model.parameters(), 0.001)
    each: list[Counter[str]] = []

    def called(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and is_ours(frame.f_code.co_filename):
            each[-1][frame.f_code.co_qualname] += 1

    try:
        for turn, rows in enumerate(DataLoader(Rows(), _SAMPLES, num_workers=workers)):
            each.append(Counter())
            if turn == _SETTLED:
                sys.setprofile(called)
            optimiser.zero_grad()
            model(rows).mean().backward()
            optimiser.step()
    finally:
        sys.setprofile(None)
    return min(each[_SETTLED:-1], key=Counter.total)


@pytest.mark.parametrize(("workers", "most"), [(2, 110), (0, 160)])
def test_few_functions_of_ours_are_called(workers: int, most: int) -> None:
    with watching():
        calls = _calls(workers)
    assert calls["LoopPhases.spend"] == 6 and calls.total() < most, calls.most_common()
