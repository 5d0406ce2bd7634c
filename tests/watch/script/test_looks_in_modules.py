"""Modules of a forward that do not change are told from those that are trained, or that follow others."""

import dis
import sys
from types import SimpleNamespace

import pytest
import torch
from looked_at import seen_from_outside

from pipebench.watch.record.trial_lines import LoopLooks, ModuleLooks
from pipebench.watch.script import frozen_modules
from pipebench.watch.script.frozen_modules import FrozenModules, _named
from pipebench.watch.script.loop_place import Call
from pipebench.watch.script.unused_gradients import UnusedGradients

TURNS = 20


class Looked(torch.nn.Module):
    """A layer in whose forward another thread looks."""

    def __init__(self, at_work, size=4):
        super().__init__()
        self.at_work, self.layer = at_work, torch.nn.Linear(size, size)

    def forward(self, batch):
        self.at_work()
        return self.layer(batch)


class Net(torch.nn.Module):
    def __init__(self, encoder, head):
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, batch):
        return self.head(self.encoder(batch))


def _frozen(module):
    return module.requires_grad_(False)


def _last(looker):
    """What was written of the loop last."""
    return [one for one in looker.written if isinstance(one, LoopLooks)][-1]


def _train(looker, step, *trained, turns=TURNS, after=lambda: None):
    """A loop with a backward in each step. What `after` does comes after the optimiser's step."""
    looker.of.early = lambda loader: True
    optimiser = torch.optim.SGD([one for model in trained for one in model.parameters() if one.requires_grad], 0.1)
    for _ in range(turns):
        looker.of.came(1, sys._getframe())
        loss = step(torch.ones(2, 4)).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        after()
    looker.of.write()
    return _last(looker)


@pytest.fixture
def at_work(looker):
    return seen_from_outside(looker.of)


def test_a_frozen_part_is_found_with_its_attribute_and_what_is_trained_is_not(looker, at_work):
    net = Net(_frozen(Looked(at_work)), Looked(at_work))
    line = _train(looker, net, net)
    assert line.frozen == [ModuleLooks("encoder", "Looked", TURNS, of="Net")]
    assert line.forward_looks == 2 * TURNS and line.later_looks == 0
    assert sum(one.looks for one in line.forward_lines) == 2 * TURNS


def test_what_the_backward_computes_again_is_counted(looker, at_work):
    """The frames of torch's own function show it, whatever calls that."""
    layer = Looked(at_work)

    def step(batch):
        return torch.utils.checkpoint.checkpoint(layer, batch, use_reentrant=False)

    line = _train(looker, step, layer)
    assert line.checkpointed == line.forward_looks == 2 * TURNS  # once in the backward: here, all looks are before it
    assert _train(looker, layer, layer).checkpointed == 0


def test_a_function_of_the_loop_in_which_a_model_runs_is_told(looker, at_work):
    layer = Looked(at_work)

    def accuracy(batch):
        with torch.no_grad():
            return layer(batch).mean()

    def step(batch):
        accuracy(batch)
        return layer(batch)

    found = _train(looker, step, layer).models_in
    assert [(one.function.rpartition(".")[2], one.looks) for one in found] == [("accuracy", TURNS), ("step", TURNS)]


def test_a_module_that_is_called_without_gradients_is_found_with_what_the_loop_calls(looker, at_work):
    text = SimpleNamespace(encoder=Looked(at_work))
    head = Looked(at_work)

    def step(batch):
        with torch.no_grad():
            found = text.encoder(batch)
        return head(found)

    assert _train(looker, step, head).frozen == [ModuleLooks("text.encoder", "Looked", TURNS)]


def test_all_parameters_are_trained(looker, at_work):
    net = Net(Looked(at_work), Looked(at_work))
    assert _train(looker, net, net).frozen == []


def test_an_input_that_requires_a_gradient_needs_the_forward_each_time(looker, at_work):
    net = Net(Looked(at_work), _frozen(Looked(at_work)))
    assert _train(looker, net, net).frozen == []


def _by_data(mine, other):
    mine.data.mul_(0.9).add_(other.data, alpha=0.1)


def _in_place(mine, other):
    with torch.no_grad():
        mine.mul_(0.9).add_(other, alpha=0.1)


def _replaced(mine, other):
    mine.data = other.detach().clone()


@pytest.mark.parametrize("follow", [_by_data, _in_place, _replaced])
def test_a_teacher_that_follows_its_student_changes(looker, at_work, follow):
    student = Looked(at_work)
    teacher = _frozen(Looked(at_work))

    def after():
        for mine, other in zip(teacher.parameters(), student.parameters(), strict=True):
            follow(mine, other)

    def step(batch):
        return student(batch) - teacher(batch)

    assert _train(looker, step, student, after=after).frozen == []


def test_what_changes_late_is_found_no_more(looker, at_work):
    net = Net(_frozen(Looked(at_work)), Looked(at_work))
    assert _train(looker, net, net).frozen != []
    net.encoder.requires_grad_(True)
    assert _train(looker, net, net).frozen == []


def test_a_few_iterations_do_not_tell(looker, at_work):
    net = Net(_frozen(Looked(at_work)), Looked(at_work))
    assert _train(looker, net, net, turns=4).frozen == []


def test_a_module_that_is_gone_keeps_what_is_known_of_it(looker, at_work):
    nets = [_frozen(Looked(at_work))]
    looker.of.early = lambda loader: True
    for _ in range(TURNS):
        looker.of.came(1, sys._getframe())
        nets[0](torch.ones(2, 4))
    nets.clear()
    looker.of.write()
    assert [(one.kind, one.looks) for one in _last(looker).frozen] == [("Looked", TURNS)]
    assert _last(looker).frozen[0].name == "nets[0]"


def test_looks_after_the_backward_are_counted_apart(looker, at_work):
    net = Net(_frozen(Looked(at_work)), Looked(at_work))
    _train(looker, net, net)
    looker.of.early = lambda loader: False
    looker.of.came(1, sys._getframe())
    net(torch.ones(2, 4))
    looker.of.write()
    assert _last(looker).later_looks == 2 and _last(looker).frozen[0].looks == TURNS


@pytest.mark.parametrize(
    ("layer", "varies"),
    [
        (torch.nn.BatchNorm1d(4), "BatchNorm1d"),
        (torch.nn.Dropout(0.1), "Dropout"),
        (torch.nn.Dropout(0.0), ""),
        (torch.nn.BatchNorm1d(4).eval(), ""),
        (torch.nn.LayerNorm(4), ""),
    ],
)
def test_layers_that_give_other_outputs_in_train_mode(looker, at_work, layer, varies):
    encoder = _frozen(Looked(at_work))
    encoder.after = _frozen(layer)
    net = Net(encoder, Looked(at_work))
    (found,) = _train(looker, net, net).frozen
    assert found.varies == varies


class _OnDevice(torch.nn.Parameter):
    """Stands for a parameter on a device, of which no value may be read."""

    device = torch.device("cuda")


def _on_device(module):
    for one in module.modules():
        one._parameters = {name: _OnDevice(held, held.requires_grad) for name, held in one._parameters.items()}
    return module


def _called(modules, module, turns):
    """What is found after so many iterations with a look in each."""
    for _ in range(turns):
        frame = SimpleNamespace(f_locals={"self": module, "args": (torch.ones(1),), "kwargs": {}})
        call = Call(frame, test_on_a_device_only_what_cannot_be_trained_is_found.__code__, 0)
        modules.note([call], UnusedGradients())
        modules.turns += 1
    return [one.kind for one in modules.found(UnusedGradients(), 1).frozen]


def test_on_a_device_only_what_cannot_be_trained_is_found(monkeypatch):
    monkeypatch.setattr(torch.nn.Parameter, "tolist", None)
    encoder, student = _on_device(_frozen(torch.nn.Linear(3, 3))), _on_device(torch.nn.Linear(4, 4))
    modules = FrozenModules()
    assert _called(modules, encoder, TURNS) == ["Linear"]
    assert _called(modules, student, TURNS) == ["Linear"]  # an optimiser may give it no new version
    assert _called(modules, _on_device(_frozen(torch.nn.Linear(4, 4))), TURNS) == ["Linear"]  # a copy may follow it
    assert modules.found(UnusedGradients(), 1).frozen[0].on_device


def test_weights_that_cannot_be_looked_at_are_passed_over(looker, at_work, monkeypatch):
    net = Net(_frozen(Looked(at_work)), Looked(at_work))
    net.encoder.lazy = torch.nn.LazyLinear(3)
    assert _train(looker, net, net.head).frozen == []
    assert frozen_modules._values(torch.nn.Parameter(torch.tensor([1.0, float("nan")]))) == [1.0]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("self.encoder(x)", "encoder"),
        ("encoder(x)", "encoder"),
        ("models[0](x)", "models[0]"),
        ("a.b.c(x)", "a.b.c"),
    ],
)
def test_the_name_of_what_a_line_calls(tmp_path, text, name):
    path = tmp_path / "train.py"
    path.write_text(f"found = 1 + {text}\n")
    code = compile(path.read_text(), str(path), "exec")
    call = [one for one in dis.get_instructions(code) if one.opname == "CALL"][-1]
    assert _named(code, call.offset) == name
