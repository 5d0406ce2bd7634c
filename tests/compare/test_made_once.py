"""A loader that takes long to make is made once a side, and each round takes a copy; others are made in each round."""

import os
import random
import sys
import threading
import types

import pytest
from torch.utils.data import DataLoader

from pipebench.compare import made_once, round_process
from pipebench.compare.made_once import Loaders


class Making:
    """A user's function whose calls are counted, under a clock that moves `costs_s` in each."""

    def __init__(self, monkeypatch, costs_s, leaves=lambda: None):
        self.now, self.calls, self.costs_s, self.leaves = 0.0, 0, costs_s, leaves
        monkeypatch.setattr(made_once.time, "perf_counter", lambda: self.now)

    def __call__(self, num_workers=0):
        self.calls += 1
        self.now += self.costs_s
        self.left = self.leaves()
        return DataLoader([[1], [2], [3]], num_workers=num_workers)


def test_what_takes_long_is_made_once_and_copied(monkeypatch):
    make = Making(monkeypatch, 5.0)
    loaders = Loaders(lambda: make)
    assert loaders.worth_keeping(num_workers=0)
    loaders.keep(num_workers=0)
    first, _ = loaders.get(num_workers=0)
    second, taken = loaders.get(num_workers=0)
    assert make.calls == 2 and taken == {"num_workers"}
    assert first.dataset is not second.dataset  # in memory of its own
    assert loaders.get(num_workers=2)[0].num_workers == 2 and make.calls == 3  # another loader
    assert not loaders.worth_keeping(num_workers=0)  # it is kept already


@pytest.mark.parametrize(
    ("costs_s", "leaves"),
    [
        (0.001, lambda: None),
        (5.0, lambda: os.fdopen(os.open(os.devnull, os.O_RDONLY))),
        (5.0, lambda: running()),
    ],
)
def test_what_is_made_fast_or_leaves_something_behind_is_made_in_each_round(costs_s, leaves, monkeypatch):
    make = Making(monkeypatch, costs_s, leaves)
    assert not Loaders(lambda: make).worth_keeping(num_workers=0)
    if hasattr(make.left, "set"):
        make.left.set()
    elif make.left:
        make.left.close()


def running():
    """A thread that waits until the event is set."""
    done = threading.Event()
    threading.Thread(target=done.wait, daemon=True).start()
    return done


def test_what_cannot_be_copied_is_made_in_each_round(monkeypatch):
    def make():
        monkeypatch.setattr(made_once, "LONG_S", 0.0)
        loader = DataLoader([1, 2])
        loader.lock = threading.Lock()
        return loader

    assert not Loaders(lambda: make).worth_keeping()


def test_a_function_that_always_gives_settings_for_workers_is_asked_for_one():
    def make(num_workers):
        return DataLoader([1, 2], num_workers=num_workers, prefetch_factor=4, persistent_workers=True)

    loader, taken = Loaders(lambda: make).get(num_workers=0, transform=None)
    assert loader.num_workers == 1 and loader.prefetch_factor == 4 and taken == {"num_workers"}


def test_what_a_server_makes_for_all_rounds_draws_the_same_on_both_sides(monkeypatch):
    made = []

    def make_loader():
        made.append(random.random())
        return DataLoader([[1], [2]])

    monkeypatch.setitem(sys.modules, "mine", types.SimpleNamespace(make_loader=make_loader))
    for number in range(2):
        side = round_process.Side({"loader": "mine:make_loader"})
        side.answer("start", (), False)
        random.seed(number)
        side.answer("keep", ("loader/own/workers-0",), False)
    assert made[0] == made[1]
