"""What `tools/watch_cost.py` makes of made-up times of iterations and epochs; and that steps and epochs are noted."""

import json
import math
import os
import subprocess
import sys
from itertools import accumulate
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"


@pytest.fixture
def cost(monkeypatch):
    monkeypatch.syspath_prepend(TOOLS)
    for name in ("watch_cost", "real_packages", "real_scripts", "real_sources"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import watch_cost

    return watch_cost


def test_the_start_and_single_slow_iterations_are_no_part_of_the_settled_rate(cost):
    each = [0.5] * 100 + [0.01] * 300
    each[250] = 3.0  # the start of a pass
    settled, slowest = cost.settled(list(accumulate(each)))
    assert settled == pytest.approx(0.01)
    assert slowest == pytest.approx(0.01)
    each[250:400:50] = [0.2] * 3
    assert cost.settled(list(accumulate(each)))[1] > 0.01


def test_too_few_steps_are_refused(cost):
    with pytest.raises(ValueError, match="40 steps are too few"):
        cost.settled(range(40))


@pytest.mark.slow
def test_steps_of_a_program_are_noted(cost, tmp_path):
    program = "import torch\no = torch.optim.SGD([torch.zeros(1, requires_grad=True)])\nfor _ in range(5): o.step()"
    environment = {**os.environ, "PYTHONPATH": str(cost.CLOCKED), "STEPS_IN": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    (noted,) = (json.loads(file.read_text()) for file in tmp_path.glob("*.json"))
    assert len(noted) == 5 and noted == sorted(noted)


def _epoch(watched, cpu_s, wall_s=2.0, seen=100):
    steps = [0.02 * number for number in range(100)]
    return {"watched": watched, "seen": watched and seen, "cpu_s": cpu_s, "wall_s": wall_s, "steps": steps}


def test_epochs_are_compared_in_pairs_and_the_first_pair_is_left_out(cost):
    paces = (9.0, 1.0, 1.2, 0.9, 1.1)  # the machine changes from pair to pair
    epochs = [_epoch(watched, pace * (1.1 if watched else 1.0)) for pace in paces for watched in (True, False)]
    pairs, iterations, plain, more, interval, *_ = cost.of_epochs(epochs)
    assert (pairs, iterations, plain) == ("4", "400", "10.50")
    assert (more, interval) == ("+10.0%", "+10.0% to +10.0%")


def test_the_interval_of_epochs_is_that_of_student(cost):
    """Logarithms 0.01, 0.02 and 0.03 have a mean of 0.02 and a standard error of 0.00577; t is 4.303."""
    more = (9.0, math.exp(0.01), math.exp(0.02), math.exp(0.03))
    found = cost.of_epochs([_epoch(watched, one if watched else 1.0) for one in more for watched in (False, True)])
    assert found[3:5] == ["+2.0%", "-0.5% to +4.6%"]


@pytest.mark.parametrize(
    ("epochs", "said"),
    [
        ([_epoch(False, 1.0), _epoch(True, 1.0)] * 2, "too few"),
        ([_epoch(False, 1.0), _epoch(True, 1.0, seen=3)] * 4, "were not seen"),
    ],
)
def test_epochs_that_tell_nothing_are_refused(cost, epochs, said):
    with pytest.raises(ValueError, match=said):
        cost.of_epochs(epochs)


@pytest.mark.slow
def test_epochs_of_a_program_are_watched_in_turns(cost, tmp_path):
    program = """
import torch
from torch.utils.data import DataLoader
made = torch.zeros(1, requires_grad=True)
steps = torch.optim.SGD([made])
loader = DataLoader(torch.arange(40.0), 4, num_workers=1)
for _ in range(4):
    for batch in loader:
        (made * batch).sum().backward()
        steps.step()
"""
    here = os.pathsep.join((str(cost.CLOCKED), str(TOOLS.parent)))
    environment = {**os.environ, "PYTHONPATH": here, "EPOCHS_IN": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    epochs = [json.loads(line) for line in (tmp_path / "epochs.jsonl").read_text().splitlines()]
    assert sorted(one["watched"] for one in epochs[:2]) == sorted(one["watched"] for one in epochs[2:]) == [False, True]
    assert all(len(one["steps"]) == 10 and one["seen"] == 10 * one["watched"] for one in epochs)
