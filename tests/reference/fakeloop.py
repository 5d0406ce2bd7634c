"""A training loop on a fake clock: a consumer and batches that take the time that they are told to."""

import itertools
from contextlib import contextmanager

import torch

from pipebench.reference.pipeline import Batch


class FakeConsumer:
    """A consumer whose phases take what they are told to on a fake clock; `slow` multiplies them."""

    label = "fake"

    def __init__(self, clock, transfer=0.0, forward=0.0, backward=0.0, optimise=0.0):
        self.clock, self.slow, self.seen = clock, 1.0, []
        self._costs = {"transfer": transfer, "forward": forward, "backward": backward, "optimise": optimise}

    def _spend(self, name):
        self.clock.spend(self._costs[name] * self.slow)

    def transfer(self, batch):
        self._spend("transfer")
        self.seen.append(batch.images)
        return batch

    def forward(self, batch):
        self._spend("forward")
        return "loss"

    def backward(self, loss):
        self._spend("backward")

    def optimise(self):
        self._spend("optimise")

    def finish(self): ...


class FakeLive:
    """Batches of 10 samples that take `wait` to come; while they are drawn by a thread, the consumer is slower."""

    def __init__(self, clock, consumer, wait, slowed=1.0):
        self.clock, self.consumer, self.wait, self.slowed = clock, consumer, wait, slowed
        self.done, self.number = [], itertools.count()

    def __next__(self):
        self.clock.spend(self.wait)
        self.done.append("next")
        return Batch(torch.full((10, 1), float(next(self.number))), torch.zeros(10))

    def discard(self):
        self.done.append("discard")
        return 0.25

    def settle(self):
        self.done.append("settle")

    @contextmanager
    def drawing(self, interval_s):
        self.done.append(("drawing", round(interval_s, 6)))
        self.consumer.slow = self.slowed
        yield
        self.consumer.slow = 1.0
