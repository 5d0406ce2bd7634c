"""Passes that train are compared with passes that train, and only with those that begin at one place."""

import pytest
import torch
from fakes import plain, plain_iter, script_of


def test_a_pass_that_evaluates_is_not_compared_with_one_that_trains(tmp_path, monkeypatch):
    """The changed loader would get all of one kind, and look like that kind."""
    script = script_of(tmp_path, monkeypatch, 20)
    script.order(1, {"num_workers": 3}, by="passes")
    for number in range(4):
        with torch.no_grad():
            assert script.one_pass() == [[one] for one in range(20)]
        made = len(script.world.made)
        assert script.one_pass() == [[one] for one in range(20)]
        assert {name for name, _ in script.world.made[made:]} == {"changed" if number % 2 else "own"}
    windows = [(one.pair, one.changed) for one in script.windows]
    assert windows[-4:] == [(1, False), (1, True), (2, False), (2, True)] and windows[:-4] == [(0, False)]


@pytest.mark.parametrize("evaluates_first", [False, True])
def test_windows_are_only_in_passes_that_train(evaluates_first, tmp_path, monkeypatch):
    """The order may come while the script evaluates."""
    script = script_of(tmp_path, monkeypatch, 100)

    def evaluate():
        before = len(script.windows), len(script.world.made)
        with torch.no_grad():
            assert script.one_pass() == [[one] for one in range(100)]
        assert len(script.windows) == before[0]
        assert {name for name, _ in script.world.made[before[1] :]} == {"own"}

    script.one_pass()  # watched
    for order in (1, 2):
        script.order(order, {"num_workers": 2 + order}, window_s=1.0)
        if evaluates_first:
            evaluate()
        for _ in range(2):
            assert script.one_pass() == [[one] for one in range(100)]
            evaluate()
        assert {one.changed for one in script.windows if one.order == order} == {False, True}


def test_windows_are_only_in_passes_of_one_place_but_a_look_at_a_batch_takes_none(tmp_path, monkeypatch):
    script = script_of(tmp_path, monkeypatch, 100)

    def look(most):
        iterator = script.trial.iterate(script.loader, plain_iter, plain)
        return [script.trial.batch(iterator, plain, plain_iter) for _ in range(most)]

    script.order(1, {"num_workers": 3}, window_s=1.0)
    look(1)
    for _ in range(2):
        assert script.one_pass() == [[one] for one in range(100)]
        windows = len(script.windows)
        assert windows and look(100) == [[one] for one in range(100)]
        assert len(script.windows) == windows


def test_a_loop_that_begins_its_passes_without_gradients_is_tried(tmp_path, monkeypatch):
    """As a generator below `@torch.no_grad()` that moves batches to a device."""
    script = script_of(tmp_path, monkeypatch, 100)
    script.order(1, {"num_workers": 3}, window_s=1.0)
    with torch.no_grad():
        script.one_pass()
    assert {one.changed for one in script.windows} == {False, True}


def test_passes_of_two_loops_that_train_are_not_compared(tmp_path, monkeypatch):
    script = script_of(tmp_path, monkeypatch, 20)
    script.order(1, {"num_workers": 3}, by="passes")

    def other():
        return script.trial.iterate(script.loader, plain_iter, plain)

    for _ in range(4):
        script.one_pass()
        made = len(script.world.made)
        iterator = other()
        assert [script.trial.batch(iterator, plain, plain_iter) for _ in range(20)] == [[one] for one in range(20)]
        assert {name for name, _ in script.world.made[made:]} == {"own"}
    assert [one.changed for one in script.windows] == [False, True, False, True]
