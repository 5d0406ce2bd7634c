"""`pipebench watch --log` beside a real script and a real command."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import pytest
from watching import plain, watched

LOADS = """
import torch
from torch.utils.data import DataLoader, TensorDataset
if __name__ == "__main__":
    weight = torch.ones(1, requires_grad=True)
    optimiser = torch.optim.SGD([weight], 0.001)
    for batch, in DataLoader(TensorDataset(torch.arange(80.0)), batch_size=2, num_workers=2):
        (weight * batch.mean()).backward()
        optimiser.step()
    print(weight.item())
"""


@pytest.mark.slow
@pytest.mark.parametrize("command", [False, True])
def test_a_script_is_logged_and_trains_as_before(command: bool, tmp_path: Path) -> None:
    (tmp_path / "loads.py").write_text(LOADS)
    argv = [str(tmp_path / "loads.py")]
    asked = [f"csv:{tmp_path / 'a.csv'}", f"jsonl:{tmp_path / 'a.jsonl'}"]
    options = {"log": asked, "log_every": 4, "command": command}
    found = watched([sys.executable, *argv] if command else argv, tmp_path, options)
    alone = plain(argv)
    assert (found.status, found.out) == (alone.status, alone.out) and "--log" not in found.err
    points = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [one["iteration"] for one in points] == [*range(5, 40, 4)]  # the first of a pass is in no figure
    rows = list(csv.DictReader((tmp_path / "a.csv").read_text().splitlines()))
    assert [(int(row["iteration"]), row["series"], float(row["value"])) for row in rows] == [
        (one["iteration"], name, value) for one in points for name, value in one["values"].items()
    ]
    assert {one["program"] for one in points} == {""} and any("loading_ms" in one["values"] for one in points)
    assert all(0 <= one["values"]["wait_share"] <= 1 for one in points)
