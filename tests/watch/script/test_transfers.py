"""Transfers are timed as soon as CUDA is initialised. There is no GPU here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from clockwork import Clock, loop_by
from torch.utils.data import DataLoader

from pipebench import watching

CLOCK = Clock()


@pytest.fixture(autouse=True)
def cuda_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """What watches takes CUDA for initialised. A graph that is captured keeps it from making events."""
    loop_by(CLOCK, monkeypatch)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)


def _iterations() -> Iterator[Any]:
    yield from DataLoader(torch.arange(6.0), 2)  # type: ignore[arg-type]


def _watched(look: Callable[[], Any]) -> Any:
    """What `look` finds in the iterations of a watched loop."""
    with watching():
        found = [look() for _ in _iterations()]
    assert found[0] == found[1] == found[2]
    return found[0]


def test_another_tensor_as_target_is_not_printed(monkeypatch):
    def refuse(self: Any, **how: Any) -> str:
        raise AssertionError("printed")

    monkeypatch.setattr(torch.Tensor, "__repr__", refuse)
    monkeypatch.setattr(torch.Tensor, "__format__", refuse)
    other = torch.ones(2, dtype=torch.float64)
    assert _watched(lambda: torch.ones(1).to(other).dtype) == torch.float64
    assert _watched(lambda: torch.ones(1).to(tensor=other).dtype) == torch.float64
