"""Looks at a loop that has not trained tell the user's own Python from its model."""

import sys

import torch
from looked_at import seen_from_outside


class Model(torch.nn.Module):
    def forward(self, at_work):
        at_work()

    def generate(self, at_work):
        self(at_work)
        at_work()


def _pairs(at_work):
    for _ in range(2):
        for _ in range(2):
            at_work()


def _score(at_work):
    at_work()


def _step(model, at_work):
    model.generate(at_work)
    _score(at_work)
    _pairs(at_work)


def _validate(looker, at_work):
    model = Model()
    for _ in range(3):
        looker.came(2, sys._getframe())
        _step(model, at_work)
    looker.left(None)
    looker.end()


def test_loops_of_the_users_are_at_work_besides_the_model(looker):
    """A look finds other Python only where it pauses by itself, and not inside the function in C that these call."""
    _validate(looker.of, seen_from_outside(looker.of))
    (line,) = [one for one in looker.written if one.loader == 2]
    found = {(one.functions[1], one.apart): one for one in line.places}
    assert {key: one.looks for key, one in found.items()} == {
        ("Model.generate", False): 3, ("_score", False): 3, ("_pairs", True): 12,
    }  # fmt: skip
    assert line.later_looks == 3
    assert all(one.functions[0] == "_step" and one.own >= 2 for one in line.places)


def test_what_leads_to_a_model_is_known_after_a_line_was_written(looker):
    model, at_work = Model(), seen_from_outside(looker.of)
    looker.of.came(2, sys._getframe())
    _step(model, at_work)
    looker.of.write()
    assert _step.__code__ in looker.of._of[2].calling


def test_a_loop_that_has_trained_is_none_of_these(looker):
    looker.of.trains = lambda loader: True
    _validate(looker.of, seen_from_outside(looker.of))
    (line,) = [one for one in looker.written if one.loader == 2]
    assert line.places and not any(one.apart for one in line.places)
