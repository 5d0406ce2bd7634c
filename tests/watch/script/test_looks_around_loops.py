"""Looks at loops without a loader, and between the passes of loaders."""

import sys

import pytest
import torch
from looked_at import seen_from_outside

from pipebench.watch.record.trial_lines import BETWEEN, LoopLooks
from pipebench.watch.script.loop_place import loops_around


class Model(torch.nn.Module):
    def forward(self, at_work):
        at_work()


class Batches:
    """Gives `count` batches, as torch's iterator: a looker knows of each, and of the end."""

    def __init__(self, looker, count=2):
        self.looker, self.left = looker, count

    def __iter__(self):
        return self

    def __next__(self):
        self.looker.came(1, sys._getframe(1))
        if not self.left:
            self.looker.left(sys._getframe(1))
            raise StopIteration
        self.left -= 1


def _own(frame):
    return [one.inside for one in loops_around(frame) if one.frame is frame]


def test_the_loops_around_a_frame_are_told_the_innermost_first():
    for _ in range(1):
        number = 0
        while number < 1:
            number += 1
            inner, outer = _own(sys._getframe())
        (last,) = _own(sys._getframe())
    assert len(inner) < len(outer) and inner.start in outer and last == outer
    assert _own(sys._getframe()) == []


@pytest.mark.parametrize("head", ["for _ in range(2):", "while not found:"])
def test_a_long_loop_is_one_loop(head):
    """The jump to its begin needs a prefix."""
    body = "\n".join(f"    number = number * {one} + other" for one in range(300))
    text = f"number = other = 1\nfound = []\n{head}\n    found.append(own(sys._getframe()))\n{body}\n"
    space = {"own": _own, "sys": sys}
    exec(compile(text, "/home/me/train.py", "exec"), space)
    assert all(len(one) == 1 for one in space["found"])


def test_work_before_the_model_is_found_in_a_loop_without_a_loader(looker):
    at_work, model = seen_from_outside(looker.of), Model()
    looker.of.early = lambda loader: True

    def get_batch():
        at_work()

    def train_step():
        model(at_work)
        looker.of.stepped(0)

    for _ in range(4):
        get_batch()
        train_step()
    looker.of.end()
    (line,) = looker.written
    (place,) = [one for one in line.places if one.looks]
    assert (line.loader, line.turns, line.file) == (0, 4, __file__)
    assert place.early and place.functions[0].endswith("get_batch") and place.looks == 3
    assert line.forward_looks == 3


def _train(looker, at_work):
    for _ in Batches(looker):
        at_work()


def _resample(at_work):
    at_work()


@pytest.mark.parametrize("deeper", [False, True])
def test_between_passes_the_loop_around_them_is_looked_at(looker, deeper):
    at_work = seen_from_outside(looker.of)
    for _ in range(3):
        _resample(at_work)
        if deeper:
            _train(looker.of, at_work)
        else:
            for _ in Batches(looker.of):
                at_work()
    at_work()  # after the last pass: in no loop
    looker.of.end()
    found = {one.loader: one for one in looker.written if isinstance(one, LoopLooks)}
    assert {loader: sum(place.looks for place in one.places) for loader, one in found.items()} == {1: 6, BETWEEN: 2}
    (place,) = found[BETWEEN].places
    assert place.functions[0] == "_resample" and found[BETWEEN].turns == 3
    assert (place.file or found[BETWEEN].file) == __file__


def test_training_between_passes_is_looked_at_too(looker):
    """Most of it is only named if it is most of all that is between them."""
    at_work, model = seen_from_outside(looker.of), Model()
    for _ in range(2):
        model(at_work)
        for _ in Batches(looker.of):
            pass
    looker.of.end()
    (found,) = [one for one in looker.written if one.loader == BETWEEN]
    assert sum(one.looks for one in found.places) == 1
