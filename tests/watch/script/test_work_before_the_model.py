"""Work before the model is found inside closures and losses too, and told by a line of the user's own code."""

import sys
from types import SimpleNamespace

import pytest
import torch
from looked_at import seen_from_outside

from pipebench.watch.script import optimisers
from pipebench.watch.script.loop_place import leaves_before, told_at

LIBRARY = "/lib/site-packages/trainer/loop.py"


class Model(torch.nn.Module):
    def forward(self, at_work):
        at_work()


def _code(name, file=__file__):
    return compile("0", file, "exec").replace(co_name=name)


def _early(looker, iterations, iterate):
    """The places before the model in so many iterations."""
    looker.of.early = lambda loader: True
    for _ in range(iterations):
        looker.of.came(1, sys._getframe())
        iterate()
    looker.of.end()
    return [one for one in looker.written[0].places if one.early and one.looks]


def test_what_a_closure_of_the_optimiser_does_before_the_model(looker):
    """As Lightning's `training_step`."""
    at_work, model = seen_from_outside(looker.of), Model()

    def augmented():
        at_work()

    def closure():
        augmented()
        model(at_work)

    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
    wrapped = optimisers._outside(SimpleNamespace(spend=lambda *_, **__: None), closure)
    (place,) = _early(looker, 3, lambda: optimiser.step(wrapped))
    assert place.looks == 2 and place.functions[0].endswith("augmented")
    assert place.line == closure.__code__.co_firstlineno + 1
    looker.of.early = lambda loader: False
    looker.of.came(1, sys._getframe())
    optimiser.step(wrapped)  # after the backward, the clock takes it for other work
    looker.of.end()
    (one,) = (one for one in looker.written[1].places if one.looks)
    assert [name.rpartition(".")[2] for name in one.functions[:2]] == ["closure", "augmented"]


def test_the_step_of_an_optimiser_that_is_not_torch_s_is_training(looker):
    at_work = seen_from_outside(looker.of)

    class Own(torch.optim.Optimizer):
        def step(self, closure=None):
            at_work()

    optimiser = Own([torch.nn.Parameter(torch.ones(1))], {})
    looker.of.came(1, sys._getframe())
    optimiser.step()
    looker.of.end()
    assert looker.written[0].places == []


@pytest.mark.parametrize(("given", "trained"), [((), True), ((lambda: None,), False)])
def test_a_step_with_a_closure_has_not_come_to_its_backward(given, trained):
    this = SimpleNamespace(trained=False, steps=0, device=SimpleNamespace(trained=lambda: None))
    here = SimpleNamespace(open=[this], bare=None, backward=False)
    recording = SimpleNamespace(on=True, guarded=lambda what, step, *args: None, settings=None, write=None)
    gradients = SimpleNamespace(stepped=None)
    loop = SimpleNamespace(here=here, recording=recording, own=None, spend=lambda *_, **__: this, gradients=gradients)
    loop.line_counts, loop.count_lines = SimpleNamespace(stop=lambda: None), lambda *_, **__: None
    hooks = optimisers._Hooks(loop)
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
    hooks.before(optimiser, (optimiser, *given), {})
    assert this.trained is trained
    hooks._tools = SimpleNamespace(stepped=lambda: None)
    hooks.after(optimiser, (optimiser, *given), {})
    assert this.trained and this.steps == 1


def test_what_a_loss_that_calls_the_model_does_before_it(looker):
    at_work, model = seen_from_outside(looker.of), Model()

    def augmented():
        at_work()

    def compute_loss():
        augmented()
        model(at_work)
        at_work()

    (place,) = _early(looker, 3, compute_loss)
    assert place.looks == 2 and place.functions[0].endswith("augmented")
    assert looker.written[0].forward_looks == 6


def test_where_no_look_meets_a_model_all_before_the_backward_is_forward(looker):
    """As of a model that takes a thousandth of it. It has lines all the same, but not before the looks are over."""
    at_work = seen_from_outside(looker.of)

    def fetched():
        at_work()

    assert not _early(looker, 3, fetched)
    (line,) = looker.written
    assert line.forward_looks == sum(one.looks for one in line.forward_lines) == 3


@pytest.mark.parametrize(
    ("name", "called", "leaves"),
    [
        ("compute_loss", _code("augment"), 1),
        ("compute_loss", None, None),  # it computes itself
        ("compute_loss", _code("normalize", "/lib/torch/nn/functional.py"), None),
        ("forward_features", _code("augment"), None),
        ("fwd", None, 1),
    ],
)
def test_a_loss_and_a_forward_compute_for_the_model(name, called, leaves):
    loop, inner = _code("main"), _code(name)
    path = [(loop, 3), (inner, 9), *([(called, 20)] if called else [])]
    assert leaves_before(path, {loop: 3, inner: 10}) == leaves


@pytest.mark.parametrize(
    ("files", "place", "told"),
    [
        ((__file__, __file__, __file__), 0, 0),
        ((__file__, __file__, __file__), 1, 1),
        ((LIBRARY, __file__, __file__), 1, 1),
        ((__file__, LIBRARY, LIBRARY), 1, 0),
        ((LIBRARY, LIBRARY, __file__), 0, 2),
        ((LIBRARY, LIBRARY, LIBRARY), 1, 1),
    ],
)
def test_the_line_that_is_told_is_the_user_s_own(files, place, told):
    assert told_at([(_code(str(one), file), one) for one, file in enumerate(files)], place) == told


def test_in_the_loop_of_a_library_the_user_s_own_line_is_told(looker):
    at_work, model = seen_from_outside(looker.of), Model()

    def augmented():
        at_work()

    def training_step():
        augmented()
        model(at_work)

    def advance():
        looker.of.came(1, sys._getframe())
        training_step()

    advance.__code__ = advance.__code__.replace(co_filename=LIBRARY)
    looker.of.early = lambda loader: True
    for _ in range(2):
        advance()
    looker.of.end()
    (line,) = looker.written
    (place,) = [one for one in line.places if one.early]
    assert (line.file, place.file, place.line) == (LIBRARY, __file__, training_step.__code__.co_firstlineno + 1)
    assert place.functions[0].endswith("augmented")


def test_what_a_loop_without_a_loader_does_after_its_last_step_is_no_work_before_the_model(looker):
    at_work, model = seen_from_outside(looker.of), Model()
    looker.of.early = lambda loader: True
    optimiser = SimpleNamespace(step=lambda: looker.of.stepped(0))

    def crop():
        at_work()

    def update():
        at_work()

    def train_step():
        crop()
        model(at_work)
        optimiser.step()  # as of a discriminator
        optimiser.step()
        update()

    for _ in range(4):
        train_step()
    looker.of.end()
    places = {one.functions[0].rpartition(".")[2]: one for one in looker.written[0].places if one.functions}
    assert (places["crop"].early, places["crop"].after) == (True, False)
    assert (places["update"].early, places["update"].after) == (True, True)
    assert places["update"].line == train_step.__code__.co_firstlineno + 5
