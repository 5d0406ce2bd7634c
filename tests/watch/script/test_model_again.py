"""Looks that meet a model after the backward of an iteration: it runs there besides training."""

import sys
from types import SimpleNamespace

import pytest
import torch
from looked_at import Model, seen_from_outside

from pipebench.watch.script.backward import watched_backward


class Phases:
    """What a looker asks about a training loop: it trains, and has come to a backward or not."""

    def __init__(self, looker):
        self.before = True
        looker.trains = lambda loader: True
        looker.early = lambda loader: self.before

    def backward(self, looker):
        self.before = False
        looker.again.clear()  # as `watched_backward` does


def _iterations(looker, phases, at_work, model, *, steps=1, measures=None, count=3):
    """A loop of so many iterations, which end in a batch that is not used. Each has so many backwards."""
    for _ in range(count):
        looker.came(1, sys._getframe())
        phases.before = True
        for _ in range(steps):
            model(at_work)
            phases.backward(looker)
        if measures is not None:
            measures(model, at_work)
    looker.came(1, sys._getframe())
    looker.end()


def _accuracy(model, at_work):
    model(at_work)


def _others(model, at_work):
    at_work()


def _places(looker):
    return [one for line in looker.written for one in line.places]


def test_a_model_that_runs_once_more_has_its_place(looker):
    at_work = seen_from_outside(looker.of)
    _iterations(looker.of, Phases(looker.of), at_work, Model(), measures=_accuracy)
    (place,) = _places(looker)
    assert (place.functions, place.looks, place.models, place.turns) == (["_accuracy"], 3, 3, 3)
    assert not place.early and not place.after and place.own == 1


def test_work_without_a_model_is_told_as_before(looker):
    at_work = seen_from_outside(looker.of)
    _iterations(looker.of, Phases(looker.of), at_work, Model(), measures=_others)
    (place,) = _places(looker)
    assert (place.functions[0], place.looks, place.models) == ("_others", 3, 0)


def test_a_model_before_a_further_backward_trains(looker):
    """As in a GAN, or where the gradient is computed at two points."""
    at_work = seen_from_outside(looker.of)
    _iterations(looker.of, Phases(looker.of), at_work, Model(), steps=2)
    assert not _places(looker)


def test_in_its_last_iteration_too(looker):
    at_work = seen_from_outside(looker.of)
    _iterations(looker.of, Phases(looker.of), at_work, Model(), steps=2, measures=_accuracy)
    (place,) = _places(looker)
    assert (place.functions, place.models) == (["_accuracy"], 3)


def test_in_a_loop_without_a_loader_it_is_after_the_last_step(looker):
    at_work, model = seen_from_outside(looker.of), Model()
    looker.of.early = lambda loader: True
    for _ in range(4):
        model(at_work)
        looker.of.stepped(0)
        _accuracy(model, at_work)
    looker.of.end()
    (place,) = [one for one in _places(looker) if one.looks]
    assert place.early and place.after and place.functions == ["_accuracy"] and place.looks == place.models == 4


def test_in_a_backward_a_model_trains(looker):
    """As where activations are computed anew."""
    at_work, model = seen_from_outside(looker.of), Model()

    class Again(torch.autograd.Function):
        @staticmethod
        def forward(ctx, given):
            return given * 2

        @staticmethod
        def backward(ctx, gradient):
            model(at_work)
            return gradient

    def backward(of_model, at_work):
        torch.autograd.backward(Again.apply(torch.ones(1, requires_grad=True)))

    _iterations(looker.of, Phases(looker.of), at_work, Model(), measures=backward)
    assert not _places(looker)


@pytest.mark.parametrize("opened", [True, False])
def test_a_backward_of_the_loop_drops_what_was_seen(opened):
    this = SimpleNamespace(trained=False, device=SimpleNamespace(trained=lambda: None))
    here = SimpleNamespace(open=[this] if opened else [], bare=None, backward=False, main=False)
    loop = SimpleNamespace(
        line_counts=SimpleNamespace(stop=lambda: None), here=here, spend=lambda *_, **__: this, again={"a look": 1},
        device=SimpleNamespace(backward_of=lambda tensors: None), gradients=SimpleNamespace(walks=False),
    )  # fmt: skip
    watched_backward(loop, lambda tensors: None)(torch.ones(1))
    assert bool(loop.again) != opened
