"""PyAV itself: its decoder and its conversion of frames have rows, and afterwards it is as before."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from pipebench import watching
from pipebench.data import clip

av = pytest.importorskip("av")


class Frames(Dataset[Any]):
    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> Any:
        with av.open(str(clip.path())) as container:
            frames = itertools.islice(container.decode(video=0), 3)
            return torch.stack([torch.from_numpy(one.to_ndarray(format="rgb24")) for one in frames])


def test_pyav_itself_has_rows_and_is_as_before_afterwards() -> None:
    """Its classes can be changed since its wheels are for all versions of Python."""
    kind = av.container.InputContainer
    before = kind.decode, av.open, [one.clone() for one in DataLoader(Frames())]
    with watching() as seen:
        found = [*DataLoader(Frames())]
    assert all(map(torch.equal, found, before[2])) and found[0].shape == (1, 3, clip.HEIGHT, clip.WIDTH, 3)
    assert {("read", "av.open"), ("decode", "InputContainer.decode"), ("transform", "VideoFrame.to_ndarray")} <= {
        (one.kind, one.name) for one in seen.result.stages
    }
    assert not seen.result.loaders[0].failed_batches and (kind.decode, av.open) == before[:2]
