"""Looks outside a loop without a loader are of the loops around it, once that loop has stepped again."""

import sys
from types import SimpleNamespace

import pytest
import torch
from looked_at import seen_from_outside

from pipebench.watch.record.trial_lines import BETWEEN, LoopLooks
from pipebench.watch.script import around_loop
from pipebench.watch.script.loop_place import note_first


class Model(torch.nn.Module):
    def forward(self, at_work):
        at_work()


@pytest.fixture
def looked(looker, monkeypatch):
    """A looker whose looks are one second apart, with what another thread's look meets."""
    now = iter(range(0, 10**15, 10**9))
    monkeypatch.setattr(around_loop, "time", SimpleNamespace(perf_counter_ns=lambda: next(now)))
    looker.of.early = lambda loader: loader == 0
    looker.of._around.passes()
    looker.at_work = seen_from_outside(looker.of)
    return looker


def _written(looked):
    looked.of.end()
    return {one.loader: one for one in looked.written if isinstance(one, LoopLooks)}


def _resample(at_work):
    at_work()


def _epoch(looked, model):
    for _ in range(2):
        model(looked.at_work)
        looked.of.at_backward()
        looked.of.stepped(0)


@pytest.mark.parametrize("deeper", [False, True])
def test_work_between_the_passes_is_found_with_its_time(looked, deeper):
    model = Model()
    for _ in range(3):
        _resample(looked.at_work)
        if deeper:
            _epoch(looked, model)
        else:
            for _ in range(2):
                model(looked.at_work)
                looked.of.at_backward()
                looked.of.stepped(0)
    _resample(looked.at_work)  # the last pass is over: after all loops
    found = _written(looked)
    assert (found[0].outside_looks, found[0].outside_ns) == (2, 2 * 10**9)
    (place,) = found[BETWEEN].places
    assert (place.functions[0], place.looks, found[BETWEEN].turns) == ("_resample", 2, 2)
    assert (place.file or found[BETWEEN].file) == __file__


def test_a_function_without_gradients_has_its_own_name(looked):
    @torch.no_grad()
    def evaluate():
        looked.at_work()

    for _ in range(3):
        evaluate()
        _epoch(looked, Model())
    looked.of.early = lambda loader: False
    for _ in range(2):
        looked.of.at_backward()
        evaluate()
        looked.of.stepped(0)
    found = _written(looked)
    (place,), (inside,) = found[BETWEEN].places, [one for one in found[0].places if one.looks and not one.early]
    assert place.functions[0].endswith("evaluate") and place.own >= 1
    assert inside.functions[0].endswith("evaluate")


def test_rollouts_are_found_two_loops_further_out(looked):
    model = Model()
    for _ in range(3):
        _resample(looked.at_work)
        for _ in range(2):
            _epoch(looked, model)
    assert _written(looked)[0].outside_looks == 2


def test_a_loop_around_another_one_that_trains_too_has_no_work_between_passes(looked):
    """As of a GAN, whose critic has a loop of its own in each step."""
    model = Model()
    for _ in range(3):
        _epoch(looked, model)
        model(looked.at_work)
        looked.of.at_backward()
    found = _written(looked)
    assert found[0].outside_looks == 0 and BETWEEN not in found


def test_what_lies_between_two_loops_that_train_is_of_neither(looked):
    model = Model()
    for _ in range(2):
        _epoch(looked, model)
        _resample(looked.at_work)
        for _ in range(2):
            model(looked.at_work)
            looked.of.at_backward()
            looked.of.stepped(0)
        _resample(looked.at_work)
    assert _written(looked)[0].outside_looks == 0


def test_no_other_frame_is_taken_for_that_of_the_loop(looked):
    """Python gives the place of a frame in memory to another one once it is gone."""
    looked.of._around.begins([around_loop.Around(sys._getframe(), None)] * 2)
    assert looked.of._around.at(sys._getframe()) is not None
    (outer,) = looked.of._around._outer
    looked.of._around._outer = [outer._replace(code=_epoch.__code__)]
    assert looked.of._around.at(sys._getframe()) is None


def test_an_evaluation_in_the_loop_now_and_then_is_not_where_the_model_begins(looked):
    """Else the work on batches below it would be taken for forward."""
    model = Model()
    for number in range(20):
        if number == 1:
            model(looked.at_work)
        _resample(looked.at_work)
        model(looked.at_work)
        looked.of.stepped(0)
    early = [one for one in _written(looked)[0].places if one.early and one.looks]
    assert sum(one.looks for one in early) >= 10 and {one.functions[0] for one in early} == {"_resample"}


def test_models_that_many_lines_call_begin_in_the_first_of_these():
    first, model, met = test_an_evaluation_in_the_loop_now_and_then_is_not_where_the_model_begins.__code__, {}, {}
    for turn in range(40):
        note_first(model, met, ((first, 100 + turn % 10),), turn)
    assert model == {first: 100}


def test_the_line_of_the_work_before_the_model_is_noted(looked):
    def get_batch():
        _resample(looked.at_work)

    model = Model()
    for _ in range(4):
        get_batch()
        model(looked.at_work)
        looked.of.stepped(0)
    written = _written(looked)[0]
    (one,) = written.early_lines
    assert (one.function, one.calls.partition(".")[0], one.looks) == ("at_work", "threading", 3)
    assert not written.besides
