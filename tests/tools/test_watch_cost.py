"""What `tools/watch_cost.py` takes for settled iterations, from made-up times; and that steps are noted."""

import json
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
