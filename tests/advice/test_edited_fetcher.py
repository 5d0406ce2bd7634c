"""A fetcher with an edit dies with its iterator, as torch's own does: the dataset is not kept for longer."""

import gc
import weakref

import pytest
import torch
from small_worker import fetcher
from torch.utils.data import TensorDataset, default_collate

from pipebench.remedies import cache, getitems, knock_out
from pipebench.watch.record.patches import Patches
from pipebench.watch.trial.compared import Comparing, compare_first
from pipebench.watch.trial.edits import Edit, edited, unpacked


class Named(TensorDataset):
    def __getitem__(self, index):
        return self.row(index)

    def row(self, index):
        return self.tensors[0][index]


class Compared(Edit):
    def in_worker(self, fetcher, patches):
        compare_first(fetcher, list, Comparing(0.0))


@pytest.mark.parametrize(
    ("kind", "edits"),
    [
        (Named, ()),
        (Named, (Compared(),)),
        (TensorDataset, (getitems.edit(),)),
        (Named, (cache.edit("Named.row"),)),
        (Named, (knock_out.edit("getitem", ""),)),
    ],
    ids=["none", "compared", "getitems", "cache", "getitem is free"],
)
def test_an_edited_fetcher_does_not_hold_itself(kind, edits):
    gc.collect()
    gc.disable()
    try:
        found, patches = fetcher(kind(torch.arange(40)), default_collate), Patches()
        alive = weakref.ref(found)
        edited(found, edits, patches)
        for indices in ([1, 2], [3, 4], [5, 6]):
            unpacked(found.fetch(indices), edits, lambda note: None)
        patches.undo()
        del found
        assert alive() is None
    finally:
        gc.enable()
