"""The training loop of the planted scripts. Its model may sleep in its forward pass, as if a device computed."""

import time

import torch


class Model(torch.nn.Module):
    """One layer, which takes `step_ms` longer than it needs."""

    def __init__(self, width, step_ms):
        super().__init__()
        self.layer, self.step_ms = torch.nn.Linear(width, 10), step_ms

    def forward(self, x):
        time.sleep(self.step_ms / 1000)
        return self.layer(x.flatten(1))


class Training:
    """A model with its optimiser. `step` is one iteration of training; `took` prints seconds for each of `units`."""

    def __init__(self, width=256, step_ms=0):
        torch.set_num_threads(1)
        self.model = Model(width, step_ms)
        self.optimiser = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.begin = None

    def step(self, x, y):
        loss = torch.nn.functional.cross_entropy(self.model(x), y)
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        return loss

    def began(self):
        self.begin = time.perf_counter()

    def took(self, units):
        print("ended", (time.perf_counter() - self.begin) / units, flush=True)


def one_pass(loader, training, iterations, after=lambda number, loss: None, warm=16):
    """Trains on one pass, and prints the seconds of an iteration after the first `warm` ones."""
    for number, (x, y) in enumerate(loader):
        if number == warm:
            training.began()
        if number == warm + iterations:
            break
        after(number, training.step(x, y))
    training.took(iterations)


def passes(loader, training, count, between=lambda: None):
    """Trains on so many passes, and prints the seconds of a pass after the first one."""
    for number in range(count):
        if number == 1:
            training.began()
        for x, y in loader:
            training.step(x, y)
        between()
    training.took(count - 1)
