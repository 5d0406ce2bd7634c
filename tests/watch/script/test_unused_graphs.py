"""Graphs for gradients that a loop keeps and does not use are met by looks at its modules."""

import sys

import pytest
import torch
from looked_at import seen_from_outside

from pipebench.watch.record.trial_lines import LoopLooks


class Looked(torch.nn.Module):
    """A layer in whose forward another thread looks."""

    def __init__(self, at_work):
        super().__init__()
        self.at_work, self.layer = at_work, torch.nn.Linear(4, 4)

    def forward(self, batch, **more):
        self.at_work()
        return self.layer(batch)


@pytest.fixture
def at_work(looker):
    return seen_from_outside(looker.of)


def _line(looker, step):
    """What was written of a loop that does not train, after two batches."""
    looker.of.early = lambda loader: False
    for _ in range(2):
        looker.of.came(2, sys._getframe())
        step(torch.ones(2, 4))
    looker.of.write()
    return [one for one in looker.written if isinstance(one, LoopLooks)][-1]


def test_what_a_second_module_gets_keeps_a_graph_where_gradients_are_on(looker, at_work):
    net = torch.nn.Sequential(Looked(at_work), Looked(at_work), Looked(at_work))
    line = _line(looker, net)
    assert (line.kept, line.used, line.later_looks) == (4, 0, 6)
    again = _line(looker, lambda batch: None)
    assert (again.kept, again.used) == (0, 0)  # each line has what came since the last


@pytest.mark.parametrize("off", [torch.no_grad, torch.inference_mode])
def test_it_keeps_none_without_gradients(looker, at_work, off):
    net, prompt = torch.nn.Sequential(Looked(at_work), Looked(at_work)), torch.nn.Parameter(torch.ones(4))

    @off()
    def step(batch):
        net(batch)
        net[1](batch, prompt=prompt)  # a weight itself has no graph

    line = _line(looker, step)
    assert (line.kept, line.used, line.later_looks) == (0, 0, 6)


def test_nor_does_a_module_that_is_frozen(looker, at_work):
    assert _line(looker, torch.nn.Sequential(Looked(at_work), Looked(at_work)).requires_grad_(False)).kept == 0


@pytest.mark.parametrize("inside", [True, False])
def test_gradients_that_the_loop_asks_for_are_seen(looker, at_work, inside):
    """Forces of a potential, or an attack on the model. Their computing is looked at from a hook."""
    net = torch.nn.Sequential(Looked(lambda: None), Looked(lambda: None))

    def forces(batch):
        batch = batch.requires_grad_()
        energy = net(batch).sum()
        energy.register_hook(lambda grad: at_work())
        return torch.autograd.grad(energy, batch)

    class Forces(torch.nn.Module):
        def forward(self, batch):
            return forces(batch)

    line = _line(looker, Forces() if inside else forces)
    assert (line.kept, line.used) == (0, 2)
