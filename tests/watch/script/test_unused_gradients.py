"""Modules with gradients that nobody uses are told from those that something else than a known optimiser trains."""

import gc
import importlib
import sys
import weakref

import pytest
import torch
from looked_at import seen_from_outside

from pipebench.watch.record.recording import Recording, Settings
from pipebench.watch.record.trial_lines import LoopLooks
from pipebench.watch.script import unused_gradients
from pipebench.watch.script.backward import watched_backward
from pipebench.watch.script.optimisers import watch_optimisers
from pipebench.watch.script.passes import Pass
from pipebench.watch.script.phases import LoopPhases

TURNS = 30


class Looked(torch.nn.Module):
    """A layer in whose forward another thread looks."""

    def __init__(self, at_work, layer=None):
        super().__init__()
        self.at_work, self.layer = at_work, torch.nn.Linear(4, 4) if layer is None else layer

    def forward(self, batch):
        self.at_work()
        return self.layer(batch)


class Net(torch.nn.Module):
    def __init__(self, *parts):
        super().__init__()
        for number, part in enumerate(parts[:-1]):
            self.add_module(f"part{number}", part)
        self.head = parts[-1]

    def forward(self, batch):
        for part in self.children():
            batch = part(batch)
        return batch


class Training:
    """A loop of one backward in each turn, as `watch` sees it."""

    def __init__(self, looker):
        self.looker, self.optimisers, self.turn = looker, [], 0
        self.gradients = looker.of.gradients
        self.gradients.walks = True
        looker.of.early = lambda loader: True

    def sgd(self, *models, lr=0.1):
        given = [one for model in models for one in (model.parameters() if hasattr(model, "parameters") else [model])]
        self.optimisers.append(made := torch.optim.SGD(given, lr))
        self.gradients.made(made)
        return made

    def backward(self, loss, plain=True, **how):
        walked = self.gradients.walks_now(1, self.turn, plain=plain)
        if walked:
            self.gradients.walk(1, loss)
        loss.backward(**how)
        if walked:
            self.gradients.after()

    def step(self, *optimisers):
        for one in optimisers or self.optimisers:
            one.step()
            self.gradients.stepped(one)
            one.zero_grad()

    def run(self, step, turns=TURNS, after=lambda: None):
        for _ in range(turns):
            self.looker.of.came(1, sys._getframe())
            loss = step(torch.ones(2, 4)).sum()
            self.backward(loss)
            self.step()
            after()
            self.turn += 1
        self.looker.of.write()
        return [one for one in self.looker.written if isinstance(one, LoopLooks)][-1]


def _names(modules):
    return [(one.name, one.kind, one.of) for one in modules]


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch):
    monkeypatch.setattr(unused_gradients, "_PAUSE", 0)


@pytest.fixture
def at_work(looker):
    return seen_from_outside(looker.of)


@pytest.fixture
def net(at_work):
    return Net(Looked(at_work), Looked(at_work), Looked(at_work))


@pytest.fixture
def training(looker):
    return Training(looker)


def test_a_backbone_that_no_optimiser_holds_is_told_and_its_outputs_could_be_kept(training, net):
    training.sgd(net.head)
    line = training.run(net)
    assert _names(line.unused) == [("part0", "Looked", "Net"), ("part1", "Looked", "Net")]
    assert [one.looks for one in line.unused] == [TURNS, TURNS]  # also in the first ones, before it is known
    assert _names(line.frozen) == _names(line.unused)


def test_the_outermost_module_is_told(training, at_work):
    encoder = Net(Looked(at_work), Looked(at_work))
    net = Net(encoder, Looked(at_work))
    training.sgd(net.head)
    assert _names(training.run(net).unused) == [("part0", "Net", "Net")]


def test_a_teacher_whose_outputs_are_in_the_loss_is_told(training, at_work):
    teacher, student = Looked(at_work), Looked(at_work)
    training.sgd(student)
    assert _names(training.run(lambda batch: (student(batch) - teacher(batch)) ** 2).unused) == [
        ("teacher", "Looked", "")
    ]


def test_no_backward_runs_through_what_is_detached(training, at_work):
    teacher, student = Looked(at_work), Looked(at_work)
    training.sgd(student)
    line = training.run(lambda batch: (student(batch) - teacher(batch).detach()) ** 2)
    assert line.unused == [] and len(line.frozen) == 1


def test_an_embedding_is_told(training, at_work):
    net = Net(Looked(at_work, torch.nn.Embedding(5, 4)), Looked(at_work))
    training.sgd(net.head)
    assert len(training.run(lambda batch: net(batch.long())).unused) == 1


def test_what_is_trained_or_requires_no_gradient_is_not_told(training, net):
    net.part0.requires_grad_(False)
    training.sgd(net.part1, net.head)
    line = training.run(net)
    assert line.unused == [] and _names(line.frozen) == [("part0", "Looked", "Net")]


def _in_place(one):
    with torch.no_grad():
        one -= 0.1 * one.grad


def _by_data(one):
    one.data -= 0.1 * one.grad.data


def _foreach(one):
    torch._foreach_add_([one.data], [one.grad], alpha=-0.1)


@pytest.mark.parametrize("update", [_in_place, _by_data, _foreach])
def test_weights_that_are_changed_by_hand(training, net, update):
    training.sgd(net.head)

    def after():
        for one in (*net.part0.parameters(), *net.part1.parameters()):
            update(one)
            one.grad = None

    assert training.run(net, after=after).unused == []


def test_a_teacher_that_follows_its_student(training, at_work):
    teacher, student = Looked(at_work), Looked(at_work)
    training.sgd(student)

    def after():
        for mine, other in zip(teacher.parameters(), student.parameters(), strict=True):
            mine.data.mul_(0.9).add_(other.data, alpha=0.1)

    assert training.run(lambda batch: (student(batch) - teacher(batch)) ** 2, after=after).unused == []


def test_an_optimiser_that_has_not_stepped_yet(training, net):
    rare = training.sgd(net.part0, net.part1)
    often = training.sgd(net.head)
    training.step = lambda: (often.step(), training.gradients.stepped(often), often.zero_grad())
    assert training.run(net).unused == []  # as where it steps once in 100 iterations
    del rare


def test_no_optimiser_has_stepped_yet(training, net):
    training.sgd(net.head)
    training.step = lambda: None
    assert training.run(net).unused == []


def test_a_part_that_is_trained_later(training, net):
    training.sgd(net.head)
    assert training.run(net).unused != []
    training.sgd(net.part0, net.part1)
    assert training.run(net).unused == []


def test_optimisers_that_are_made_anew(training, net):
    def after():
        training.optimisers.clear()
        training.sgd(net)

    after()
    assert training.run(net, after=after).unused == []


def test_an_optimiser_that_holds_others_in_their_place(training, net):
    flat = torch.nn.Parameter(torch.zeros(3))
    training.sgd(flat)
    assert training.run(net).unused == []


def test_an_optimiser_that_holds_all_around_one_that_holds_a_part(training, net):
    training.sgd(net)
    inner = torch.optim.SGD(net.head.parameters(), 0.1)
    training.step = lambda: (inner.step(), training.gradients.stepped(inner))
    assert training.run(net).unused == []


def test_two_optimisers_and_two_backwards_of_an_iteration(training, at_work):
    generator, critic = Looked(at_work), Looked(at_work)
    training.sgd(generator)

    def step(batch):
        training.backward(critic(batch).sum())
        return critic(generator(batch))

    assert training.run(step).unused == []


def test_gradients_of_the_input(training, at_work):
    attacked, head = Looked(at_work), Looked(at_work)
    training.sgd(head)

    def step(batch):
        return head(attacked(batch.requires_grad_()))

    assert training.run(step).unused == []


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("form", [lambda layer: layer, torch.nn.utils.parametrizations.weight_norm])
def test_gradients_of_what_is_trained_before_it(training, at_work, bias, form):
    net = Net(Looked(at_work), Looked(at_work, form(torch.nn.Linear(4, 4, bias=bias))), Looked(at_work))
    training.sgd(net.part0, net.head)
    assert training.run(net).unused == []


@pytest.mark.parametrize("hooked", ["register_hook", "register_post_accumulate_grad_hook"])
def test_hooks_of_parameters(training, net, hooked):
    for one in (*net.part0.parameters(), *net.part1.parameters()):
        getattr(one, hooked)(lambda given: None)
    training.sgd(net.head)
    assert training.run(net).unused == []


def test_hooks_of_modules(training, net):
    for one in (net.part0, net.part1.layer):
        one.register_full_backward_pre_hook(lambda *given: None)
    training.sgd(net.head)
    assert training.run(net).unused == []


def test_gradients_to_which_somebody_writes(training, net):
    training.sgd(net.head)
    training.step = lambda: (torch.nn.utils.clip_grad_norm_(net.parameters(), 1e-3), Training.step(training))
    assert training.run(net).unused == []


def test_gradients_that_are_cleared_are_told_on_the_host_only(training, net, monkeypatch):
    training.sgd(net.head)
    assert training.run(net, after=lambda: net.zero_grad()).unused != []
    monkeypatch.setattr(torch.nn.Parameter, "device", torch.device("cuda"), raising=False)
    assert training.run(net, after=lambda: net.zero_grad()).unused == []


def test_gradients_that_only_add_up_are_told_on_a_device(training, net, monkeypatch):
    net = Net(torch.nn.Sequential(net.part0, net.part1), net.head)
    monkeypatch.setattr(torch.nn.Parameter, "device", torch.device("cuda"), raising=False)
    training.sgd(net.head)
    line = training.run(net)
    assert [(one.kind, one.on_device) for one in line.unused] == [("Sequential", True)] and line.frozen == []


def test_a_backward_of_some_inputs(training, net):
    training.sgd(net.head)
    plain = training.backward
    training.backward = lambda loss: plain(loss, plain=False, inputs=[*net.head.parameters()])
    assert training.run(net).unused == []


def test_few_iterations_do_not_tell(training, net):
    training.sgd(net.head)
    assert training.run(net, turns=7).unused == []


def test_a_graph_that_is_too_large(training, net, monkeypatch):
    monkeypatch.setattr(unused_gradients, "_MOST_NODES", 5)
    training.sgd(net.head)
    assert training.run(net).unused == []


def test_a_module_that_is_gone_keeps_what_is_known_of_it(training, at_work):
    nets = [Net(Looked(at_work), Looked(at_work))]
    training.sgd(nets[0].head)
    training.run(nets[0])
    training.looker.of.came(1, sys._getframe())
    nets.clear()
    training.optimisers.clear()
    training.looker.of.write()
    assert [(one.kind, one.of) for one in training.looker.written[-1].unused] == [("Looked", "Net")]


def test_parameters_and_optimisers_are_not_kept(training, net):
    optimiser = weakref.ref(training.sgd(net.head))
    training.run(net)
    kept = [weakref.ref(one) for one in net.parameters()]
    training.optimisers.clear()
    for one in (net.part0, net.part1, net.head):
        one.layer = None
    gc.collect()
    assert optimiser() is None and [one() for one in kept] == [None] * len(kept)


def test_backwards_and_optimisers_are_watched(tmp_path):
    loop = LoopPhases(Recording(Settings(str(tmp_path)), "script"))
    watch_optimisers(loop, importlib.import_module("torch.optim.optimizer"))
    try:
        loop.gradients.walks = True
        this = Pass(loop.recording, 1, 0, loop.device, lambda: None)
        loop.here.open.append(this)
        net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
        optimiser = torch.optim.SGD(net[1].parameters(), 0.1)
        backward = watched_backward(loop, torch.autograd.backward)
        for this.turn in range(TURNS):
            backward(net(torch.ones(2, 4)).sum())
            optimiser.step()
        assert loop.gradients.unused(1, net[0].parameters()) and not loop.gradients.unused(1, net[1].parameters())
        this.turn += 1
        backward(net(torch.ones(2, 4)).sum(), inputs=[*net[1].parameters()])
        assert not loop.gradients.unused(1, net[0].parameters())
        loop.gradients.walk = None  # a fault of ours
        loop.gradients.walks_now = lambda *_, **__: True
        backward(net(torch.ones(2, 4)).sum())
        assert not loop.gradients.walks and loop.recording.faults == 1
    finally:
        loop.recording.stop()
    assert torch.optim.Optimizer.__init__.__qualname__ == "Optimizer.__init__"
