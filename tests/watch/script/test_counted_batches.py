"""Every eighth batch of a worker is counted; those between have its counts."""

import pickle
from multiprocessing import queues

import numpy as np
import pytest
import torch

from pipebench.watch.record.patches import Patches
from pipebench.watch.worker import pickling


def test_every_eighth_batch_is_counted(monkeypatch):
    meter, patches = pickling.Meter(), Patches()
    monkeypatch.setattr(pickling, "meter", meter)
    plain = queues._ForkingPickler
    pickling.watch_queue(patches)
    try:
        for nth in range(10):
            batch = [np.zeros(nth + 1), "a text"]
            meter.made(batch, 0, nth, 0, 1)
            queues._ForkingPickler.dumps((2 * nth, batch))
    finally:
        patches.undo()
    assert queues._ForkingPickler is plain
    found = meter.take_handed()
    assert [one.nth for one in found] == list(range(10))
    assert [(one.arrays, one.array_bytes, one.tensors) for one in found] == [(1, 8, 0)] * 8 + [(1, 72, 0)] * 2
    assert {one.viewed_bytes for one in found} == {0}
    assert [one.pipe_bytes for one in found] == sorted({one.pipe_bytes for one in found})  # of each batch itself


@pytest.mark.parametrize(
    ("batch", "shared", "viewed"),
    [
        ([torch.zeros(1000)], 4000, 0),
        ([torch.zeros(1000)[10:20]], 4000, 3960),
        ([*torch.zeros(10, 100)[2:4]], 4000, 3200),
        ([torch.zeros(1).expand(1000)], 4, 0),
        ([torch.zeros(1000)[:5], torch.zeros(7)], 4028, 3980),
    ],
    ids=["whole", "window", "two-of-one", "larger-than-its-memory", "one-of-two"],
)
def test_what_crosses_besides_the_tensors_is_counted(batch, shared, viewed, monkeypatch):
    meter, patches = pickling.Meter(), Patches()
    monkeypatch.setattr(pickling, "meter", meter)
    pickling.watch_queue(patches)
    try:
        meter.made(batch, 0, 0, 0, 1)
        queues._ForkingPickler.dumps((0, batch))
    finally:
        patches.undo()
    (found,) = meter.take_handed()
    assert (found.shared_bytes, found.viewed_bytes) == (shared, viewed)


class Photo(torch.Tensor):
    """A class that no table of reducers has, as fastai's images are."""


def test_tensors_of_a_library_s_own_class_are_counted_and_cross_as_they_would(monkeypatch):
    meter, patches = pickling.Meter(), Patches()
    monkeypatch.setattr(pickling, "meter", meter)
    batch = [torch.zeros(2, 3).as_subclass(Photo), torch.zeros(4)]
    pickling.watch_queue(patches)
    try:
        meter.made(batch, 0, 0, 0, 1)
        crossed = pickle.loads(queues._ForkingPickler.dumps((0, batch)))[1]
    finally:
        patches.undo()
    (found,) = meter.take_handed()
    assert (found.tensors, found.shared_bytes) == (2, 40)
    assert [type(one) for one in crossed] == [Photo, torch.Tensor] and crossed[0].shape == (2, 3)


def test_memory_that_is_shared_already_is_not_copied_again():
    crossing = pickling.Crossing()
    window = torch.zeros(1000).share_memory_()[:10]
    crossing.tensor(window)
    crossing.storage(window.untyped_storage())
    assert crossing.counted() == (1, 4000, 0, 0, 0, 0, 1)


def test_a_tensor_that_does_not_tell_its_size_counts_as_its_memory():
    class Odd:
        layout = property(lambda self: 1 / 0)

    crossing = pickling.Crossing()
    crossing.storage(torch.zeros(10).untyped_storage())
    crossing.tensor(Odd())
    assert crossing.counted() == (1, 40, 0, 0, 0, 0, 1)


def test_bytes_of_float64_are_counted_unless_that_is_what_torch_computes_in():
    def counted():
        crossing = pickling.Crossing()
        crossing.array(np.zeros(3))
        crossing.array(np.zeros(3, np.float32))
        crossing.tensor(torch.zeros(2, dtype=torch.float64))
        crossing.tensor(torch.zeros(2, dtype=torch.float32))
        crossing.tensor(torch.zeros(1, dtype=torch.float64).expand(1000))
        crossing.tensor(torch.eye(50, dtype=torch.float64).to_sparse_csr())  # its parts come by themselves
        return crossing.counted()[5]

    assert counted() == 24 + 16 + 8
    torch.set_default_dtype(torch.float64)
    try:
        assert counted() == 0
    finally:
        torch.set_default_dtype(torch.float32)


def test_views_of_one_memory_cross_with_it_and_other_tensors_one_by_one(monkeypatch):
    meter, patches = pickling.Meter(), Patches()
    monkeypatch.setattr(pickling, "meter", meter)
    views, own = list(torch.zeros(6, 2).unbind()), [torch.zeros(2) for _ in range(6)]
    pickling.watch_queue(patches)
    try:
        for task, batch in enumerate((views, own)):
            meter.made(batch, 0, task * 8, 0, 1)
            queues._ForkingPickler.dumps((task, batch))
    finally:
        patches.undo()
    assert [(one.tensors, one.storages) for one in meter.take_handed()] == [(6, 1), (6, 6)]
