"""A watched command runs as a plain one, and each of its programs is in the report."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import warm
from click.testing import CliRunner
from watching import PATIENCE_S, Send, script, signalled, to_group, to_process, watch_command

from pipebench.cli import cli
from pipebench.errors import UsageError

COMMAND = {"command": True}
LOADS = """
import sys
import torch
from torch.utils.data import DataLoader, TensorDataset
method = sys.argv[2] if len(sys.argv) > 2 else None
if __name__ == "__main__":
    data = TensorDataset(torch.arange(40.0).reshape(40, 1))
    loader = DataLoader(data, batch_size=2, num_workers=1 if method else 0, multiprocessing_context=method)
    print(sys.argv[1], sum(len(batch[0]) for batch in loader))
    sys.exit(3 if sys.argv[1] == "bad" else 0)
"""


def _report(command: list[str], folder: Path, **how: Any) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    place = folder / "watch.json"
    line = watch_command({**COMMAND, "export_json": str(place)}, command)
    done = warm.run(line, capture_output=True, text=True, timeout=PATIENCE_S, **how)
    return done, json.loads(place.read_text()) if place.exists() else {}


def _plain(command: list[str], **how: Any) -> subprocess.CompletedProcess[str]:
    return warm.run(command, capture_output=True, text=True, timeout=PATIENCE_S, **how)


@pytest.mark.parametrize("arguments", [["identity", "--x"], ["surroundings"], ["exit", "3"], ["fail"], ["os-exit"]])
def test_a_python_program_runs_as_without_us(arguments: list[str], tmp_path: Path) -> None:
    command = [sys.executable, script("process"), *arguments]
    alone = _plain(command, input="typed")
    with_us, report = _report(command, tmp_path, input="typed")
    assert (with_us.returncode, with_us.stdout) == (alone.returncode, alone.stdout)
    assert with_us.stderr.startswith(alone.stderr)
    assert report["command"]["status"] == report["watched"]["status"] == alone.returncode
    assert report["command"]["programs"] == [] and report["command"]["shown"] is None
    assert "no Python process of the command was seen to import torch" in " ".join(with_us.stderr.split())


@pytest.mark.slow
def test_every_program_of_a_shell_script_is_in_the_report(tmp_path: Path) -> None:
    (tmp_path / "loads.py").write_text(LOADS)
    lines = ("-c 'import torch'", "loads.py first", "loads.py bad spawn")
    (tmp_path / "run.sh").write_text("cat\n" + "".join(f"{sys.executable} {one}\n" for one in lines))
    command = ["sh", "run.sh"]
    with_us, report = _report(command, tmp_path, input="typed", cwd=tmp_path)
    assert (with_us.returncode, with_us.stdout) == (3, "typedfirst 40\nbad 40\n")
    first, second = report["command"]["programs"]
    assert [one["name"] for one in (first, second)] == ["loads.py first", "loads.py bad spawn"]
    assert [one["ended"] for one in (first, second)] == ["ended", "ended"]
    assert 0 == first["began_s"] < first["wall_s"] < second["began_s"]
    assert report["command"]["others"] == 1
    shown = report["command"]["shown"]
    assert [one["watched"] is None for one in (first, second)] == [shown == 0, shown == 1]
    its = [one["watched"] or report["watched"] for one in (first, second)]
    assert [one["loaders"][0]["start_method"] for one in its] == ["none", "spawn"]
    assert [one["loaders"][0]["samples"] for one in its] == [40, 40]
    assert [len(one["workers"]) for one in its] == [0, 1] and its[1]["workers"][0]["ended"]
    assert [note["code"] for one in its for note in one["notes"]] == []


@pytest.mark.slow
def test_workers_are_no_programs_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "loads.py").write_text(LOADS)
    _, report = _report([sys.executable, "loads.py", "x", "forkserver"], tmp_path, cwd=tmp_path)
    assert [len(report["command"]["programs"]), report["command"]["others"]] == [1, 0]
    (worker,) = report["watched"]["workers"]
    assert worker["samples"] == 40


def test_an_exception_is_named(tmp_path: Path) -> None:
    (tmp_path / "fails.py").write_text(LOADS.replace("sys.exit(3 ", "raise ValueError('planted') if 1 else (3 "))
    with_us, report = _report([sys.executable, "fails.py", "x"], tmp_path, cwd=tmp_path)
    (program,) = report["command"]["programs"]
    assert with_us.returncode == 1 and program["ended"] == "failed"
    assert program["error"] == "ValueError: planted (fails.py:10)"
    assert "failed: ValueError: planted" in " ".join(with_us.stderr.split())


@pytest.mark.slow
def test_a_program_that_outlives_the_command_is_said(tmp_path: Path) -> None:
    more = "import pathlib, time\npathlib.Path('loaded').touch()\n"
    more += "while not pathlib.Path('stop').exists():\n    time.sleep(0.1)\n"
    (tmp_path / "stays.py").write_text(LOADS.replace('    sys.exit(3 if sys.argv[1] == "bad" else 0)\n', "") + more)
    line = f"{sys.executable} stays.py x >/dev/null 2>&1 & while [ ! -e loaded ]; do sleep 0.1; done; exit 4"
    try:
        with_us, report = _report(["sh", "-c", line], tmp_path, cwd=tmp_path)
    finally:
        (tmp_path / "stop").touch()
    (program,) = report["command"]["programs"]
    assert (with_us.returncode, program["ended"]) == (4, "running")
    assert report["watched"]["loaders"][0]["dataset"] == "TensorDataset"


@pytest.mark.parametrize("send", [to_process, to_group], ids=["process", "group"])
@pytest.mark.parametrize(
    ("how", "number", "times"),
    [("interrupted", signal.SIGINT, 2), ("terminated", signal.SIGTERM, 1), ("wait", signal.SIGTERM, 1)],
)
def test_signals_arrive_as_without_us(how: str, number: int, times: int, send: Callable[[int], Send]) -> None:
    command = [sys.executable, script("process"), how]
    status, out = signalled(command, send(number), times)
    expected = status if status >= 0 else 128 - status
    assert signalled(watch_command(COMMAND, command), send(number), times) == (expected, out)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (["--", "no-such-command"], "there is no command no-such-command"),
        (["--", "train.py"], "there is no command train.py"),
        (["--"], "there is no script to watch"),
    ],
)
def test_what_cannot_be_started_is_refused(line: list[str], problem: str) -> None:
    done = CliRunner().invoke(cli, ["watch", *line])
    assert isinstance(done.exception, UsageError) and done.exception.problem == problem


def test_a_command_needs_the_two_hyphens(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[bool, list[str]]] = []

    def watch(options: Any, argv: list[str], *_: object, **__: object) -> int:
        started.append((options.command, argv))
        return 0

    monkeypatch.setattr("pipebench.watch.command.watch", watch)
    for line in (["--", "true", "--x", "--"], ["train.py", "--", "--x"], ["-m", "package", "--", "--x"]):
        CliRunner().invoke(cli, ["watch", "--steps", "3", *line], catch_exceptions=False, standalone_mode=False)
    assert started == [
        (True, ["true", "--x", "--"]), (False, ["train.py", "--", "--x"]), (False, ["package", "--x"]),
    ]  # fmt: skip
