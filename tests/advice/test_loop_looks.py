"""Where the thread of a loop is: the line of the loop and what it calls, but not while it waits or trains."""

import sys
import threading
from types import SimpleNamespace

import pytest
import torch

from pipebench.watch.trial import loop_looks
from pipebench.watch.trial.loop_looks import LoopLooker


class Client:
    def report(self, at_work):
        at_work()


class Model(torch.nn.Module):
    def forward(self, at_work):
        at_work()


@pytest.fixture
def looker(monkeypatch):
    monkeypatch.setattr(LoopLooker, "_look_on", lambda self: None)
    monkeypatch.setattr(loop_looks, "_WRITTEN_EACH_S", 1e9)
    written = []
    return SimpleNamespace(of=LoopLooker(SimpleNamespace(write=written.append, on=True)), written=written)


def _seen_from_outside(looker):
    """A function that another thread's look meets."""

    def at_work():
        other = threading.Thread(target=looker._look)
        other.start()
        other.join()

    return at_work


def _train(looker, batches, work):
    for _ in range(batches):
        looker.came(1, sys._getframe())
        work()
    looker.left()
    work()  # after the pass: no part of the loop


def test_a_place_has_the_functions_that_the_loop_calls(looker):
    at_work = _seen_from_outside(looker.of)
    _train(looker.of, 3, lambda: Client().report(at_work))
    (line,) = looker.written
    assert (line.loader, line.file, line.turns) == (1, __file__, 3)
    (place,) = line.places
    assert "Client.report" in place.functions and (place.looks, place.turns) == (3, 3)


def test_what_a_model_does_is_training(looker):
    at_work = _seen_from_outside(looker.of)
    model = Model()
    _train(looker.of, 3, lambda: model(at_work))
    (line,) = looker.written
    assert line.places == []


def test_generators_and_iterators_around_a_loader_are_no_loop(looker):
    def shown(batches):
        for _ in range(batches):
            looker.of.came(1, sys._getframe())
            yield

    at_work = _seen_from_outside(looker.of)
    for _ in shown(2):
        at_work()
    looker.of.left()
    (line,) = looker.written
    assert [one.looks for one in line.places] == [2]


def test_another_thread_notes_nothing(looker):
    looker.of.came(1, sys._getframe())
    other = threading.Thread(target=looker.of.came, args=(2, sys._getframe()))
    other.start()
    other.join()
    looker.of.left()
    assert [(one.loader, one.turns) for one in looker.written] == [(1, 1)]
