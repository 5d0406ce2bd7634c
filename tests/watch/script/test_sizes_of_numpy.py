"""Settings of a loader that are numbers of NumPy: they come from configurations and from arithmetic."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from pipebench import watching
from pipebench.watch.read.decoding import decoded
from pipebench.watch.record.record_file import encoded
from pipebench.watch.record.trial_lines import LoaderMade
from pipebench.watch.trial.patching import Makers

NUMBERS: Any = torch.arange(8.0)


def _made() -> DataLoader[Any]:
    how: Any = {"num_workers": np.int64(1), "prefetch_factor": np.int32(3), "timeout": np.float64(60)}
    return DataLoader(NUMBERS, 4, pin_memory=np.bool_(False), **how)  # type: ignore[arg-type]


def test_such_a_loader_is_watched_as_others_are():
    with watching() as seen:
        sums = [float(batch.sum()) for _ in range(2) for batch in _made()]
    assert sums == [6.0, 22.0] * 2
    (loader,) = seen.result.loaders
    assert (loader.workers, loader.batch_size, loader.iterations) == (1, 4, 4)
    assert not seen.result.notes


def test_it_can_be_tried():
    written: list[Any] = []
    loader = _made()
    recording: Any = SimpleNamespace(write=written.append, settings=SimpleNamespace(shared=""))
    makers = Makers(recording, {loader: 1})
    makers.made(loader)
    makers.iterated(loader)
    found = decoded(encoded(*written).strip())
    assert isinstance(found, LoaderMade) and (found.batches, found.refusal) == (2, "")
    wanted = {"num_workers": 1, "prefetch_factor": 3, "timeout": 60.0, "pin_memory": False, "batch_size": 4}
    assert wanted.items() <= found.settings.items()
