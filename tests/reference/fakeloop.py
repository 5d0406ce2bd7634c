"""A training loop on a fake clock: a consumer and batches that take the time that they are told to."""

import itertools

import torch

from pipebench.reference.pipeline import LoadedBatch


class FakeConsumer:
    """A consumer whose phases take what they are told to on a fake clock."""

    label = "fake"

    def __init__(self, clock, transfer=0.0, forward=0.0, backward=0.0, optimise=0.0):
        self.clock = clock
        self._costs = {"transfer": transfer, "forward": forward, "backward": backward, "optimise": optimise}

    def _spend(self, name):
        self.clock.spend(self._costs[name])

    def transfer(self, batch):
        self._spend("transfer")
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
    """Batches of 10 samples that take `wait` to come."""

    def __init__(self, clock, wait):
        self.clock, self.wait, self.number = clock, wait, itertools.count()

    def __next__(self):
        self.clock.spend(self.wait)
        return LoadedBatch(torch.full((10, 1), float(next(self.number))), torch.zeros(10))
