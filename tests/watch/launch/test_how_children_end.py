"""Which exception ended a process of multiprocessing: no hook for exceptions runs there."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from watching import PATIENCE_S, watch_command

from pipebench.watch.launch import program

SPAWNS = """
import sys, torch
from torch.utils.data import DataLoader

def train(number):
    model = torch.nn.Linear(2, 2)
    optimiser = torch.optim.SGD(model.parameters(), 0.1)
    for turn, batch in enumerate(DataLoader(torch.ones(80, 2), 4)):
        model(batch).sum().backward()
        optimiser.step()
        if turn == 7 and number:
            sys.exit(0)
    raise ValueError("planted")

if __name__ == "__main__":
    torch.multiprocessing.spawn(train, nprocs=2)
"""


def _raises() -> None:
    raise ValueError("planted")


def _exits_as_torch_does() -> None:
    try:
        _raises()
    except Exception:
        sys.exit(1)


def _ended_by(act: Callable[[], object]) -> BaseException | None:
    """What is found in the place where `BaseProcess._bootstrap` calls what is registered for the end."""
    found = []
    try:
        try:
            act()
        finally:
            found.append(program._uncaught())
    except BaseException:
        pass
    return found[0]


@pytest.mark.parametrize(
    ("act", "text"),
    [
        (_raises, "planted"),
        (_exits_as_torch_does, "planted"),
        (lambda: sys.exit(0), None),
        (lambda: sys.exit(3), None),
        (sys.exit, None),
        (lambda: None, None),
    ],
)
def test_the_exception_of_a_child_is_found(
    act: Callable[[], object], text: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "_is_child", lambda: True)
    found = _ended_by(act)
    assert (found and str(found)) == text


def test_a_process_that_is_spawned_is_known_before_it_knows_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    for argv, spawned in ((["python", "-c", "from multiprocessing.spawn import spawn_main"], True), (["a.py"], False)):
        monkeypatch.setattr(sys, "orig_argv", argv)
        assert program._is_spawned() is spawned


@pytest.mark.long
def test_what_torch_spawns_is_named_with_its_exception(tmp_path: Path) -> None:
    (tmp_path / "spawns.py").write_text(SPAWNS)
    options = {"command": True, "export_json": str(tmp_path / "watch.json")}
    line = watch_command(options, [sys.executable, str(tmp_path / "spawns.py")])
    done = subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE_S)
    programs = json.loads((tmp_path / "watch.json").read_text())["command"]["programs"]
    assert done.returncode == 1
    assert sorted((one["ended"], one["error"]) for one in programs) == [
        ("ended", ""), ("failed", "ValueError: planted (spawns.py:13)"),
    ]  # fmt: skip
