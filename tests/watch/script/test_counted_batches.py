"""Every eighth batch of a worker is counted; those between have its counts."""

from multiprocessing import queues

import numpy as np

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
    assert [one.pipe_bytes for one in found] == sorted({one.pipe_bytes for one in found})  # of each batch itself
