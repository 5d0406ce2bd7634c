"""Ranks of one training, started by torchrun: what was planted on one of them is found, far above the noise."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from watching import PATIENCE_S, script, watch_command

pytestmark = pytest.mark.long
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


def _torchrun(folder: Path, *arguments: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    start = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    return _watched([*start, script("ranked"), *arguments], folder)


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
    assert ranks["stage"]["s"] > 0.02 and ranks["stage"]["s"] > 4 * ranks["stage"]["others_s"]


def test_a_rank_with_slow_storage_is_named(tmp_path: Path) -> None:
    done, report = _torchrun(tmp_path, "1", "0.02")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["rank 0 has trained", "rank 1 has trained"]
    _is_slow(report)
    assert report["command"]["others"] == 1  # torchrun itself
    assert [one["ended"] for one in report["command"]["programs"]] == ["ended", "ended"]


def test_a_rank_that_is_killed_is_named_and_the_other_reported(tmp_path: Path) -> None:
    done, report = _torchrun(tmp_path, "0", "0.01", "1")
    assert done.returncode == 1
    ended = {one["rank"]: one for one in report["command"]["programs"]}
    assert ended[1]["ended"] == "cut"
    assert ended[0]["ended"] in ("failed", "cut")  # it loses the other one in a collective, or torchrun ends it
    assert "ranked.py 0 0.01 1 (rank 1, process" in " ".join(done.stderr.split())
    assert {one["rank"] for one in report["command"]["ranks"]["rows"]} == {0, 1}


def test_ranks_that_a_script_spawns_are_programs(tmp_path: Path) -> None:
    (tmp_path / "spawns.py").write_text(SPAWNS)
    done, report = _watched(
        [str(tmp_path / "spawns.py"), str(Path(script("ranked")).parent), str(_free_port())], tmp_path
    )
    assert done.returncode == 0, done.stderr
    _is_slow(report)
