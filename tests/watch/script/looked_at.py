"""What is looked at in the tests of looks at a loop."""

import threading
from types import SimpleNamespace

import torch


class Client:
    def report(self, at_work):
        at_work()


def made_up_recording():
    written = []
    return SimpleNamespace(write=written.append, written=written, on=True, before_stop=[], fault=print)


def seen_from_outside(looker):
    """A function that another thread's look meets."""

    def at_work():
        other = threading.Thread(target=looker._look)
        other.start()
        other.join()

    return at_work


class Model(torch.nn.Module):
    def forward(self, at_work):
        at_work()


def iteration(at_work, model, *, augments, deeper):
    """An iteration of a loop: it makes a batch ready, calls the model and a loss of its own."""
    if augments:
        at_work()
    if deeper:
        return _step(at_work, model)
    model(at_work)
    return at_work()  # a loss


def _step(at_work, model):
    at_work()
    model(at_work)
