"""What looks find before the first call of a model: it makes a batch ready."""

import os
import sys

import pytest
import torch
from looked_at import Model, iteration, seen_from_outside

from pipebench.watch.script import loop_looks
from pipebench.watch.script.own_line import OwnLine


@pytest.mark.parametrize(
    ("augments", "deeper", "early", "forward"),
    [
        (True, False, 2, 6),  # of the first iteration only the model is known
        (True, True, 4, 3),  # two lines come before the model, one of them in a function that calls it
        (False, True, 2, 3),
        (False, False, 0, 6),
    ],
)
def test_what_comes_before_the_model_makes_a_batch_ready(looker, augments, deeper, early, forward):
    at_work, model = seen_from_outside(looker.of), Model()
    looker.of.early = lambda loader: True
    for _ in range(3):
        looker.of.came(1, sys._getframe())
        iteration(at_work, model, augments=augments, deeper=deeper)
    looker.of.end()
    (line,) = looker.written
    assert sum(one.looks for one in line.places if one.early) == early
    assert not any(one.looks for one in line.places if not one.early)
    assert line.forward_looks == forward


def test_the_model_stays_known_from_line_to_line(looker):
    at_work, model = seen_from_outside(looker.of), Model()
    looker.of.early = lambda loader: True
    for _ in range(2):
        looker.of.came(1, sys._getframe())
        iteration(at_work, model, augments=True, deeper=False)
        looker.of.write()
    first, second = looker.written
    assert [one.early for one in first.places] == [] and [one.early for one in second.places] == [True]


def test_what_makes_a_batch_ready_is_named_where_its_way_leaves_that_to_the_model(looker):
    at_work, model = seen_from_outside(looker.of), Model()
    looker.of.early = lambda loader: True

    class Augment(torch.nn.Module):
        def forward(self, at_work):
            at_work()

    def augmented():
        Augment()(at_work)

    def step():
        [augmented() for _ in range(1)]
        model(at_work)

    file = os.path.join(os.sep, "lib", "torchvision", "transforms", "v2.py")
    Augment.forward.__code__ = Augment.forward.__code__.replace(co_filename=file)
    for _ in range(2):
        looker.of.came(1, sys._getframe())
        step()
    looker.of.end()
    (place,) = (one for one in looker.written[0].places if one.early)
    assert [one.rpartition(".")[2] for one in place.functions[:1]] == ["augmented"]


def test_lines_at_work_are_counted_with_the_looks_at_forward(looker, monkeypatch):
    at_work, model = seen_from_outside(looker.of), Model()
    monkeypatch.setattr(loop_looks, "own_line", lambda frame, loop, inside: OwnLine("net.py", "Net.keys", 9, "list"))
    for trains in (True, True, False):
        looker.of.early = lambda loader, trains=trains: trains
        looker.of.came(1, sys._getframe())
        iteration(at_work, model, augments=True, deeper=False)
    looker.of.end()
    (line,) = looker.written
    (one,) = line.lines
    assert tuple(one[:4]) == ("net.py", "Net.keys", 9, "list") and one.looks == line.forward_looks == 4
