"""`--bound` of ranks that really train together on this machine: they replay in step, and none is hung by another."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from watching import PATIENCE_S, script, watch_command

from pipebench.watch.read.gather import Process, gather
from pipebench.watch.record.bound_lines import BoundWindow

READ_S, STEP_S, BATCH = 0.03, 0.02, 2
LAUNCHER = """
import os, subprocess, sys
ranks = [
    subprocess.Popen([sys.executable, *sys.argv[2:]], env={**os.environ, "RANK": str(one), "WORLD_SIZE": sys.argv[1]})
    for one in range(int(sys.argv[1]))
]
sys.exit(max(abs(one.wait()) for one in ranks))
"""


def _bound(
    folder: Path, arguments: list[str], ranks: int = 2, steps: int = 60, launcher: Path | None = None
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any], list[Process]]:
    """A run under torchrun or another launcher, its report, and the scripts' records in the order of their ranks."""
    start = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    if launcher is not None:
        start = [str(launcher), str(ranks)]
    options = {"command": True, "bound": True, "steps": steps, "export_json": str(folder / "watch.json")}
    line = watch_command(
        {**options, "records": str(folder / "records")}, [sys.executable, *start, script("in_step"), *arguments]
    )
    names = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())}
    done = subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE_S, env={**os.environ, **names})
    report = json.loads((folder / "watch.json").read_text())
    pids = {one["pid"]: one["rank"] for one in report["command"]["programs"]}
    found = [one for place in (folder / "records").iterdir() if place.is_dir() for one in gather(place)]
    return done, report, sorted((one for one in found if one.pid in pids), key=lambda one: pids[one.pid])


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _windows(one: Process) -> dict[tuple[int, str], BoundWindow]:
    return {(line.round, line.kind): line for line in one.of(BoundWindow)}


def _are_in_step(processes: list[Process]) -> None:
    """The windows of all ranks are the same: at the same iterations, and at the same time."""
    first, *others = map(_windows, processes)
    assert len(first) >= 6
    for other in others:
        assert {key: one.first for key, one in first.items()} == {key: one.first for key, one in other.items()}
        assert all(max(one.begin, other[key].begin) < min(one.end, other[key].end) for key, one in first.items())


def _planted(ranks: int) -> list[str]:
    return ["--slow-rank", str(ranks - 1), "--read-s", str(READ_S), "--step-s", str(STEP_S)]


@pytest.mark.parametrize("ranks", [pytest.param(2, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.long)])
def test_ranks_replay_in_step_and_the_job_is_no_faster_than_its_steps(ranks: int, tmp_path: Path) -> None:
    """Each sample of the last rank sleeps, and each step: a step that sleeps lasts at least as long on any machine."""
    done, report, processes = _bound(tmp_path, _planted(ranks), ranks)
    assert done.returncode == 0, done.stderr
    assert "has trained" not in done.stdout
    assert len(processes) == ranks
    _are_in_step(processes)
    found = report["watched"]["bound"]
    assert found["complete"] and [one["rank"] for one in found["ranks"]] == list(range(ranks)), found
    for kind in ("live", "bound"):
        assert 0 < found[kind]["samples_per_s"] <= BATCH * ranks / STEP_S
    assert found["ranks"][-1]["wait_s"] > 0
    assert "waits longest for batches" in " ".join(done.stderr.split())


@pytest.mark.long
@pytest.mark.timing
@pytest.mark.parametrize("ranks", [2, 4])
def test_the_bound_of_a_job_is_what_it_reaches_without_the_reading_that_was_planted_on_one_rank(
    ranks: int, tmp_path: Path
) -> None:
    """Without the sleep of the last rank, live training is as fast as the bound says."""
    slow, planted = ranks - 1, _planted(ranks)
    done, report, _ = _bound(tmp_path, planted, ranks)
    found = report["watched"]["bound"]
    live, bound = found["live"]["samples_per_s"], found["bound"]["samples_per_s"]
    (tmp_path / "without").mkdir()
    _, without, _ = _bound(tmp_path / "without", planted[4:], ranks)
    assert live <= BATCH * ranks / (BATCH * READ_S)
    assert bound / (BATCH * ranks / STEP_S) > 0.4
    assert 0.7 < bound / without["watched"]["bound"]["live"]["samples_per_s"] < 1.4
    assert found["bound_over_live"]["speedup"] > 1.3
    waits = [one["wait_s"] for one in found["ranks"]]
    assert waits.index(max(waits)) == slow and waits[slow] > 2 * max(waits[:slow])
    shares = [one["live_per_s"] * ranks / live for one in found["ranks"]]
    assert all(abs(one - 1) < 0.2 for one in shares)
    assert report["command"]["programs"][report["command"]["shown"]]["rank"] == slow
    assert f"In live windows, rank {slow} waits longest for batches" in " ".join(done.stderr.split())


@pytest.mark.slow
def test_a_rank_that_is_killed_ends_the_job_as_without_us_and_what_there_was_is_reported(tmp_path: Path) -> None:
    ends = ["--ending-rank", "1", "--ends-at", "40", "--killed", "--step-s", "0.02"]
    done, report, _ = _bound(tmp_path, ends)
    assert done.returncode == 1
    found = report["watched"]["bound"]
    assert not found["complete"] and found["rounds"] >= 1
    assert {one["rank"]: one["ended"] for one in report["command"]["programs"]}[1] == "cut"
    assert any(one["code"] == "ended-early" for one in found["notes"])


@pytest.mark.slow
@pytest.mark.parametrize("killed", [False, True])
def test_a_rank_that_ends_or_dies_hangs_no_other_that_could_go_on(killed: bool, tmp_path: Path) -> None:
    """Nothing ties these ranks but their windows, and no launcher ends one because of another."""
    (tmp_path / "launcher.py").write_text(LAUNCHER)
    ends = ["--alone", "--ending-rank", "1", "--ends-at", "30", *["--killed"] * killed, "--step-s", "0.005"]
    done, report, processes = _bound(tmp_path, ends, launcher=tmp_path / "launcher.py")
    assert done.returncode == (9 if killed else 0), done.stderr
    first, second = map(_windows, processes)
    assert len(second) < len(first) and max(one.round for one in first.values()) >= 2
    found = report["watched"]["bound"]
    assert not found["complete"]
    short = next(one for one in found["notes"] if one["code"] == "bound-rank-short")
    assert short["values"]["rank"] == 1 and short["values"]["windows"] == len(second)


@pytest.mark.slow
def test_ranks_without_windows_train_on_until_the_steps_are_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each rank takes itself for the only one of its machine."""
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
    (tmp_path / "launcher.py").write_text(LAUNCHER)
    done, report, processes = _bound(tmp_path, [], steps=40, launcher=tmp_path / "launcher.py")
    assert done.returncode == 1 and done.stdout == "", done.stderr
    assert [one["ended"] for one in report["command"]["programs"]] == ["ended", "ended"]
    assert len(processes) == 2 and not any(map(_windows, processes))
    found = report["watched"]["bound"]
    assert found["bound_over_live"] is None
    assert [one["code"] for one in found["notes"]] == ["bound-one-machine", "bound-rank-missing"]
    assert "The bound needs all ranks on one machine" in " ".join(done.stderr.split())


@pytest.mark.slow
def test_ranks_that_nothing_ties_have_no_bound_in_common(tmp_path: Path) -> None:
    (tmp_path / "launcher.py").write_text(LAUNCHER)
    planted = ["--alone", "--slow-rank", "1", "--read-s", "0.05"]
    done, report, _ = _bound(tmp_path, planted, launcher=tmp_path / "launcher.py")
    assert done.returncode == 0, done.stderr
    assert any(one["code"] == "bound-not-in-step" for one in report["watched"]["bound"]["notes"])
