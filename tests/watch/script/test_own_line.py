"""The line of the user's own code that works in Python inside forward is told from layers and operations of torch."""

import copy
import dis
import random
from types import SimpleNamespace

import pytest
import torch

from pipebench.watch.script.own_line import OwnLine, innermost_line, own_line, works_apart


def _stacks(queue):
    return torch.stack(list(queue))


def _lists(queue):
    return list(queue)


def _joins_each(queue, self):
    return torch.cat([self.of(one) for one in queue], 1)


def _joins_two(one, other):
    return torch.cat([one, other], 1)


def _joins_a_pair(one, other):
    return torch.stack((one, other))


def _reads(loss):
    return loss.item()


def _multiplies(one, other):
    return torch.matmul(one, other)


def _adds_up(one):
    return one.sum()


def _calls_a_layer(self, one):
    return self.conv(one)


def _fills(table):
    for row in range(2):
        for place in range(2):
            table[row, place] = 1


def _fills_a_row(table):
    for row in range(2):
        table[row] = 1


def _frame(function, opname="CALL", file=__file__, back=None):
    """A frame that stands at the last instruction of this name."""
    code = function.__code__.replace(co_filename=file)
    at = [one for one in dis.get_instructions(code) if one.opname == opname][-1]
    line = at.positions.lineno
    return SimpleNamespace(f_code=code, f_lasti=at.offset, f_lineno=line, f_back=back)


@pytest.mark.parametrize(
    ("function", "opname", "calls"),
    [
        (_stacks, "CALL", "torch.stack"),
        (_lists, "CALL", "list"),
        (_joins_each, "CALL", "torch.cat"),
        (_joins_two, "CALL", None),  # an operation of the model, as in a U-Net
        (_joins_a_pair, "CALL", None),
        (_reads, "CALL", "item"),
        (_multiplies, "CALL", None),
        (_adds_up, "CALL", None),  # of a tensor
        (_calls_a_layer, "CALL", None),
        (_fills, "STORE_SUBSCR", ""),
        (_fills_a_row, "STORE_SUBSCR", None),
        (_fills_a_row, "JUMP_BACKWARD", ""),
        (_multiplies, "RESUME", None),
    ],
)
def test_what_a_line_calls_says_whether_it_works_in_python(function, opname, calls):
    found = own_line(_frame(function, opname), 0, None)
    assert (found and (found.function, found.calls)) == (None if calls is None else (function.__name__, calls))


NUMPY, TORCH = "/lib/site-packages/numpy/core.py", "/lib/site-packages/torch/"


@pytest.mark.parametrize(
    ("inner", "calls"),
    [
        ([(random.Random.sample, random.__file__)], "random.sample"),
        ([(_stacks, NUMPY)], "numpy._stacks"),
        ([(copy.deepcopy, copy.__file__), (_reads, f"{TORCH}_tensor.py")], "copy.deepcopy"),
        ([(_reads, f"{TORCH}functional.py")], None),  # an operation of torch, written in Python
        ([(_reads, f"{TORCH}nn/functional.py")], None),  # a loss
        ([(_reads, f"{TORCH}nn/modules/module.py"), (_stacks, NUMPY)], None),  # a layer, whatever it calls
        ([(_reads, "/lib/site-packages/timm/layers.py")], None),
        ([(_reads, "<string>")], None),
        (
            [(_reads, f"{copy.__file__[:-8]}/queue.py")],
            "queue._reads",
        ),  # it waits: the reader knows whether for a device
        ([(_stacks, "/lib/site-packages/requests/api.py"), (_reads, f"{copy.__file__[:-8]}/ssl.py")], "ssl._reads"),
        ([(_reads, f"{TORCH}nn/modules/module.py"), (_reads, f"{copy.__file__[:-8]}/queue.py")], None),
    ],
)
def test_a_library_is_no_line_of_the_users_own_and_what_trains_is_none(inner, calls):
    found = own_line(_below(inner), 0, None)
    assert (found and (found.function, found.calls)) == (None if calls is None else ("_calls_a_layer", calls))


def _below(inner):
    """The frame of a line of the user's that calls these functions, the first one first."""
    frame = _frame(_calls_a_layer)
    for function, file in inner:
        at = SimpleNamespace(f_code=function.__code__.replace(co_filename=file), f_lasti=0, f_lineno=1, f_back=frame)
        frame = at
    return frame


@pytest.mark.parametrize(
    ("function", "opname", "apart"),
    [
        (_lists, "CALL", True),
        (_fills, "STORE_SUBSCR", True),
        (_multiplies, "CALL", False),  # the model's own, as far as is known
        (_reads, "CALL", False),  # a device may be at work until then
    ],
)
def test_besides_a_model_python_is_at_work_but_for_waits_for_its_outputs(function, opname, apart):
    assert works_apart(_frame(function, opname), 0, None, ()) is apart


PICTURES = "/lib/site-packages/torchvision/utils.py"


@pytest.mark.parametrize(
    ("inner", "apart"),
    [
        ([(_stacks, NUMPY)], True),
        ([(_lists, PICTURES), (_stacks, "/lib/site-packages/PIL/Image.py")], True),  # as `save_image`
        ([(_lists, PICTURES)], False),
        ([(_lists, "/lib/site-packages/jiwer/measures.py")], True),
        ([(_reads, f"{TORCH}nn/modules/module.py"), (_stacks, NUMPY)], False),
        ([(_lists, f"{TORCH}distributed/c10d.py")], False),  # a wait for other ranks
    ],
)
def test_libraries_that_are_no_torch_are_at_work_besides_a_model(inner, apart):
    assert works_apart(_below(inner), 0, None, ()) is apart


def test_a_library_that_led_to_the_models_call_is_a_part_of_it():
    """As generating a text, which calls the model many times."""
    frame = _below([(_lists, "/lib/site-packages/transformers/generation.py"), (copy.deepcopy, copy.__file__)])
    assert works_apart(frame, 0, None, ())
    assert not works_apart(frame, 0, None, {frame.f_back.f_code})


def test_a_comprehension_has_the_name_of_its_function_and_the_loops_of_others_are_no_line():
    code = _lists.__code__.replace(co_qualname="Memory.sample.<locals>.<listcomp>", co_name="<listcomp>")
    found = own_line(_frame(SimpleNamespace(__code__=code)), 0, None)
    assert found == OwnLine(__file__, "Memory.sample", found.line, "list")
    loop = _frame(_lists, file="/lib/site-packages/lightning/loops.py", back=_frame(_lists))
    assert own_line(loop, id(loop), None) is None


def test_the_innermost_line_is_told_whatever_it_calls():
    frame = _below([(_lists, "/lib/site-packages/torch/nn/functional.py"), (_adds_up, f"{TORCH}nn/modules/module.py")])
    found = innermost_line(frame, 0)
    assert found is not None and found.file == __file__ and found.calls == ""
    loop = _frame(_lists, file="/lib/site-packages/lightning/loops.py", back=_frame(_lists))
    assert innermost_line(loop, id(loop)) is None
    assert innermost_line(None, 0) is None
