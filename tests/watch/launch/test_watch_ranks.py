"""Ranks of one training, started by torchrun: what was planted on one of them is found, far above the noise."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from watching import PATIENCE_S, script, watch_command

from pipebench.cli import cli
from pipebench.watch.record.kernel_counts import core_wait_ns

SPAWNS = """
import os, sys
import torch.multiprocessing

def rank(number):
    os.environ.update(RANK=str(number), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[2])
    sys.path.insert(0, sys.argv[1])
    import ranked
    ranked.main(1, 0.02)

if __name__ == "__main__":
    torch.multiprocessing.spawn(rank, nprocs=2)
"""


def _watched(command: list[str], folder: Path) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    line = watch_command({"command": True, "export_json": str(folder / "watch.json")}, [sys.executable, *command])
    done = subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE_S)
    return done, json.loads((folder / "watch.json").read_text())


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _torchrun(
    folder: Path, *arguments: str, ranks: int = 2, name: str = "ranked"
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    start = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    return _watched([*start, script(name), *arguments], folder)


def _two_nodes(folder: Path, *arguments: str) -> dict[str, Any]:
    """Two agents with a rank each, as on two machines, each under its own watch; and what is shown of both."""
    meet = ["--nnodes", "2", "--nproc-per-node", "1", "--master-addr", "127.0.0.1", "--master-port", str(_free_port())]
    nodes = []
    for number in range(2):
        start = [sys.executable, "-m", "torch.distributed.run", *meet, "--node-rank", str(number), script("ranked")]
        options = {"command": True, "export_json": str(folder / f"node{number}.json")}
        nodes.append(subprocess.Popen(watch_command(options, [*start, *arguments]), stderr=subprocess.DEVNULL))
    for one in nodes:
        one.wait(PATIENCE_S)
    shown = ["show", "--merge", str(folder), "--format", "json"]
    return json.loads(CliRunner().invoke(cli, shown, catch_exceptions=False).output)


def _is_slow(report: dict[str, Any]) -> None:
    ranks, programs = report["command"]["ranks"], report["command"]["programs"]
    assert [one["rank"] for one in programs] in ([0, 1], [1, 0]) and {one["ranks"] for one in programs} == {2}
    assert (ranks["of"], ranks["straggler"], ranks["part"], ranks["steps"]) == (2, 1, "wait", 29)
    assert programs[report["command"]["shown"]]["rank"] == 1
    fast, slow = ranks["rows"]
    assert (fast["samples"], slow["samples"]) == (60, 60)
    assert slow["last_share"] > 0.8
    assert slow["wait_s"] > 0.03  # two samples of 20 ms, by one worker
    assert ranks["stage"]["name"] == "Numbers.__getitem__"
    assert ranks["stage"]["s"] > 0.02 and ranks["stage"]["s"] > ranks["stage"]["others_s"]


@pytest.mark.long
def test_a_rank_with_slow_storage_is_named(tmp_path: Path) -> None:
    done, report = _torchrun(tmp_path, "1", "0.02")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["rank 0 has trained", "rank 1 has trained"]
    _is_slow(report)
    assert report["command"]["others"] == 1  # torchrun itself
    assert [one["ended"] for one in report["command"]["programs"]] == ["ended", "ended"]


@pytest.mark.parametrize(
    ("kind", "part", "ranks", "slow_s"),
    [
        pytest.param("storage", "blocked_s", 4, "0.03", marks=pytest.mark.slow),
        pytest.param("shard", "cpu_s", 2, "0.03", marks=pytest.mark.slow),
        pytest.param("shard", "cpu_s", 4, "0.03", marks=pytest.mark.long),
        pytest.param("cores", "core_wait_s", 2, "0.005", marks=[pytest.mark.long, pytest.mark.timing]),
        pytest.param("cores", "core_wait_s", 4, "0.005", marks=[pytest.mark.long, pytest.mark.timing]),
    ],
)
def test_each_kind_of_straggler_is_named_with_its_cause(
    kind: str, part: str, ranks: int, slow_s: str, tmp_path: Path
) -> None:
    """The workers of the last rank sleep, compute, or have a core that four others use. The rest is far smaller.

    Other programs may use the cores too: a rank that computes may wait for them.
    """
    if kind == "cores" and (len(os.sched_getaffinity(0)) < 2 or core_wait_ns() == 0):
        pytest.skip("needs two cores, and a Linux that says how long a thread had none")
    slow = ranks - 1
    done, report = _torchrun(tmp_path, str(slow), slow_s, "-1", "1", kind, ranks=ranks)
    assert done.returncode == 0, done.stderr
    found = report["command"]["ranks"]
    assert (found["of"], len(found["rows"]), found["straggler"], found["part"]) == (ranks, ranks, slow, "wait")
    assert found["stage"]["name"] == "Numbers.__getitem__"
    longer = found["longer"]
    planted = longer.pop(part)
    longer.pop("core_wait_s", None)
    assert planted > 0.01 and planted > max(longer.values())
    assert found["cost_s"] > 0


@pytest.mark.slow
def test_a_wait_for_a_collective_that_was_started_before_is_no_own_work(tmp_path: Path) -> None:
    done, report = _torchrun(tmp_path, "handles", name="ranked_apart")
    assert done.returncode == 0, done.stderr
    found = report["command"]["ranks"]
    fast, slow = found["rows"]
    assert (found["hidden"], found["straggler"], found["part"]) == (None, 1, "wait")
    assert fast["work_s"] < slow["wait_s"] / 2  # it would be as long as that: a batch of rank 1 takes 100 ms


@pytest.mark.slow
def test_what_rank_0_does_alone_between_its_passes_is_told(tmp_path: Path) -> None:
    done, report = _torchrun(tmp_path, "validation", name="ranked_apart")
    assert done.returncode == 0, done.stderr
    found = report["command"]["ranks"]
    assert found["outside_rank"] == 0 and found["outside_s"] > 0.7  # two validations of 0.4 s have steps after them
    assert found["outside_share"] > 0.3 and found["step_s"] < 0.1
    assert "None holds the others up" not in " ".join(done.stderr.split())


@pytest.mark.slow
def test_the_reports_of_two_nodes_name_the_slow_rank_together(tmp_path: Path) -> None:
    report = _two_nodes(tmp_path, "1", "0.02")
    _is_slow(report)
    assert report["command"]["status"] == 0


@pytest.mark.long
def test_a_rank_that_is_killed_on_another_node_is_named_and_its_first_steps_are_compared(tmp_path: Path) -> None:
    report = _two_nodes(tmp_path, "0", "0.02", "1")
    command = report["command"]
    ended = {one["rank"]: one["ended"] for one in command["programs"]}
    assert ended[1] == "cut" and ended[0] in ("failed", "cut")
    assert command["status"] == 1 and command["ranks"]["steps"] >= 6


@pytest.mark.long
def test_a_rank_that_is_killed_is_is_named_and_the_other_reported(tmp_path: Path) -> None:
    done, report = _torchrun(tmp_path, "0", "0.01", "1")
    assert done.returncode == 1
    ended = {one["rank"]: one for one in report["command"]["programs"]}
    assert ended[1]["ended"] == "cut"
    assert ended[0]["ended"] in ("failed", "cut")  # it loses the other one in a collective, or torchrun ends it
    assert "ranked.py 0 0.01 1 (rank 1, process" in " ".join(done.stderr.split())
    assert {one["rank"] for one in report["command"]["ranks"]["rows"]} == {0, 1}


@pytest.mark.long
def test_ranks_that_a_script_spawns_are_programs(tmp_path: Path) -> None:
    (tmp_path / "spawns.py").write_text(SPAWNS)
    done, report = _watched(
        [str(tmp_path / "spawns.py"), str(Path(script("ranked")).parent), str(_free_port())], tmp_path
    )
    assert done.returncode == 0, done.stderr
    _is_slow(report)
