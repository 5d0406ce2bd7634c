"""The bound of a real script, in a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import warm
from watching import Outcome, script, watched

from pipebench.watch.bound.schedule import LIVE
from pipebench.watch.read.gather import gather
from pipebench.watch.record.bound_lines import BoundPlan, BoundWindow
from pipebench.watch.record.lines import Line


def _bound(tmp_path: Path, arguments: list[str], steps: int) -> tuple[Outcome, list[Line], list[str]]:
    """The outcome, the lines of all processes, and the batches that the script had, one by one."""
    records = tmp_path / "records"
    options = {"bound": True, "steps": steps, "records": str(records)}
    outcome = watched([script("bound"), str(tmp_path), *arguments], tmp_path, options)
    found = [one for process in gather(records) for one in process.lines]
    return outcome, found, (tmp_path / "notes").read_text().splitlines()


def _had(notes: list[str], lines: list[Line]) -> dict[tuple[int, str], list[str]]:
    """What the script had in each window. The passes before the plan's own are counted in its `given`."""
    plan = next(one for one in lines if isinstance(one, BoundPlan))
    batches = [one for one in notes if not one.startswith("end")]
    return {
        (one.round, one.kind): batches[plan.given + one.first :][: plan.window]
        for one in lines
        if isinstance(one, BoundWindow)
    }


@pytest.mark.parametrize(
    "arguments",
    [
        ["--workers", "2"],
        pytest.param(["--stream", "--change"], marks=pytest.mark.long),
        pytest.param(["--change", "--persistent", "--workers", "1"], marks=pytest.mark.long),
        pytest.param(["--stream", "--workers", "2"], marks=pytest.mark.long),
        pytest.param(["--stream", "--persistent", "--workers", "2"], marks=pytest.mark.long),
    ],
    ids=" ".join,
)
def test_replays_are_the_batches_of_their_live_window_and_no_weights_are_kept(
    arguments: list[str], tmp_path: Path
) -> None:
    outcome, lines, notes = _bound(tmp_path, arguments, 60)
    assert outcome.status == 0, outcome.err
    had = _had(notes, lines)
    replays = {key: names for key, names in had.items() if key[1] != LIVE}
    kinds = {kind for _, kind in replays}
    assert kinds == ({"bound", "bound_busy"} if "--workers" in arguments else {"bound"})
    assert len(replays) >= 4 and all(len(set(names)) == len(names) >= 4 for names in replays.values())
    for (turn, _), names in replays.items():
        assert names == had[turn, LIVE]
    rounds = [had[key] for key in had if key[1] == LIVE]
    assert len({tuple(one) for one in rounds}) > 1
    if "--stream" not in arguments:
        passes = "\n".join(notes).split("end of a pass")
        assert len(passes) > 3 and {len(one.split("\n")) - 2 for one in passes[1:-1]} == {15}
    assert not (tmp_path / "checkpoint").exists() and not (tmp_path / "on-the-way-out").exists()
    found = outcome.watch["bound"]
    assert found["complete"] and found["live"]["samples_per_s"] > 0 and found["bound"]["readings_s"]
    assert {"speedup", "low", "high", "confidence"} <= set(found["bound_over_live"])
    assert outcome.err.startswith("pipebench: --bound trains on replayed batches")
    assert outcome.err.endswith("pipebench: discard the weights of this run (--bound).\n")


@pytest.mark.long
def test_a_script_that_ends_first_ends_as_its_own_and_what_there_is_is_reported(tmp_path: Path) -> None:
    outcome, _, notes = _bound(tmp_path, ["--epochs", "1"], 90)
    assert outcome.status == 0 and notes[-1] == "end of a pass" and len(notes) == 16
    assert (tmp_path / "checkpoint").exists() and (tmp_path / "on-the-way-out").exists()
    assert not outcome.watch["bound"]["complete"]
    assert outcome.watch["bound"]["notes"][0]["code"] == "ended-early"


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "steps", "status", "said"),
    [
        (["--no-train", "--epochs", "2"], 90, 0, "No loop over a DataLoader trained a model"),
        ([], 8, 1, "--steps 8 is too few for one round of windows"),
    ],
)
def test_where_nothing_can_be_measured_that_is_said(
    arguments: list[str], steps: int, status: int, said: str, tmp_path: Path
) -> None:
    outcome, _, _ = _bound(tmp_path, arguments, steps)
    assert outcome.status == status
    assert outcome.watch["bound"]["bound_over_live"] is None
    assert "The bound was not measured." in outcome.err and said in outcome.err


def test_without_agreement_nothing_is_started(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pipebench", "watch", "--bound", script("bound"), str(tmp_path)]
    done = warm.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and done.stdout == ""
    assert "--yes-discard-weights" in done.stderr.splitlines()[1] and len(done.stderr.splitlines()) == 2
    assert not (tmp_path / "notes").exists()


@pytest.mark.cuda
def test_on_a_device_batches_are_replayed_from_its_memory_too(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(
        "import torch\n"
        "from torch.utils.data import DataLoader, TensorDataset\n"
        "model = torch.nn.Linear(64, 8).cuda()\n"
        "optimiser = torch.optim.SGD(model.parameters(), 1e-9)\n"
        "data = TensorDataset(torch.rand(4096, 64), torch.arange(4096))\n"
        "loader = DataLoader(data, 16, num_workers=2, pin_memory=True)\n"
        "for epoch in range(10):\n"
        "    for x, number in loader:\n"
        "        number.numpy()\n"
        "        model(x.cuda(non_blocking=True)).sum().backward()\n"
        "        optimiser.step()\n"
    )
    outcome = watched([str(path)], tmp_path, {"bound": True, "steps": 300})
    found = outcome.watch["bound"]
    assert outcome.status == 0 and found["complete"], outcome.err
    assert found["bound_device"]["samples_per_s"] > 0 and found["device_over_live"]["speedup"] > 0
