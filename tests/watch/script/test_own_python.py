"""Python loops of the user's own code between the model and the backward are told from operations of torch."""

import dis
import sys
from types import SimpleNamespace

import pytest
import torch
from looked_at import seen_from_outside

from pipebench.watch.script.loop_place import extent
from pipebench.watch.script.own_python import runs_python

ROWS = range(2)


class Model(torch.nn.Module):
    def forward(self, at_work):
        at_work()


def _nested(at_work):
    for row in ROWS:
        for other in ROWS:
            if row == other == 0:
                at_work()


def _in_one_loop(at_work):
    for row in ROWS:
        if row == 0:
            at_work()


def _frame(function, opname, file=__file__):
    """A frame that stands at the first instruction of this name."""
    code = function.__code__.replace(co_filename=file)
    at = next(one.offset for one in dis.get_instructions(code) if opname in one.opname)
    return SimpleNamespace(f_code=code, f_lasti=at, f_back=None)


@pytest.mark.parametrize(
    ("opname", "file", "python"),
    [
        ("JUMP_BACKWARD", __file__, True),  # the interpreter goes from step to step
        ("RESUME", __file__, True),
        ("CALL", __file__, False),  # it may be an operation of torch
        ("JUMP_BACKWARD", "/lib/site-packages/trainer/loss.py", False),  # nobody's own
    ],
)
def test_the_instruction_says_whether_the_interpreter_itself_works(opname, file, python):
    assert runs_python(_frame(_in_one_loop, opname, file), 0, None) is python


def test_a_call_counts_inside_two_loops_of_which_neither_is_that_of_the_training():
    assert runs_python(_frame(_nested, "CALL"), 0, None)
    alone = _frame(_nested, "CALL")
    assert not runs_python(alone, id(alone), None)  # which of them is the training is not known
    starts = [one.offset for one in dis.get_instructions(alone.f_code) if one.opname == "FOR_ITER"]
    training = extent(SimpleNamespace(f_code=alone.f_code, f_lasti=starts[0]))
    assert not runs_python(alone, id(alone), training)
    inner = _frame(_in_one_loop, "CALL")
    inner.f_back = alone
    assert runs_python(inner, id(alone), training)  # one in the loop's own function, and one in what it calls


@pytest.mark.parametrize(("mine", "told"), [(_nested, True), (_in_one_loop, False), (lambda at_work: at_work(), False)])
def test_what_the_loop_does_after_the_model_is_counted_with_its_line(looker, mine, told):
    at_work, model = seen_from_outside(looker.of), Model()
    looker.of.early = lambda loader: True
    for _ in range(3):
        looker.of.came(1, sys._getframe())
        model(at_work)
        mine(at_work)
        line = sys._getframe().f_lineno - 1
    looker.of.end()
    (written,) = looker.written
    assert written.forward_looks == 6
    found = [(one.looks, one.line, one.functions[0], one.early) for one in written.places if one.after]
    assert found == [(3, line, mine.__name__, False)] * told


def test_after_the_backward_it_is_no_work_between(looker):
    at_work, model = seen_from_outside(looker.of), Model()
    for early in (True, False):
        looker.of.early = lambda loader, early=early: early
        looker.of.came(1, sys._getframe())
        model(at_work) if early else _nested(at_work)
    looker.of.end()
    assert [one.after for one in looker.written[0].places] == [False]


def test_loops_of_a_module_are_training(looker):
    at_work, model = seen_from_outside(looker.of), Model()

    class Loss(torch.nn.Module):
        def forward(self, at_work):
            _nested(at_work)

    loss = Loss()
    looker.of.early = lambda loader: True
    for _ in range(3):
        looker.of.came(1, sys._getframe())
        model(at_work)
        loss(at_work)
    looker.of.end()
    assert looker.written[0].places == []
