"""The ranks of one training in the reports of several machines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from test_ranks import MS, NOTHING, STEPS

from pipebench.cli import cli
from pipebench.errors import PipebenchError, UsageError
from pipebench.host.machine import Machine
from pipebench.results.programs import Program, WatchedCommand
from pipebench.results.ranks import StepOfRank
from pipebench.results.report import Report, load, save
from pipebench.results.watched import StageResult, WatchResult
from pipebench.watch.read.merged import merged

NODE = Machine("node", "", "", "", 2.0, 1, 1, "", None, "fork")


def _figures(rank: int) -> WatchResult:
    stage = StageResult("Photos.read", "read", 1, 100, 0.03 if rank == 2 else 0.001, 0.5)
    return replace(NOTHING, stages=(stage,), usable_cores=10.0 + rank)  # each rank's are known by their cores


def _program(rank: int, of: int = 4) -> Program:
    steps = tuple(StepOfRank(one, (31 if rank == 2 else 1) * MS, MS) for one in range(STEPS))
    return Program(100 + rank, "train.py", 0.0, 9.0, "ended", rank=rank, ranks=of, watched=_figures(rank), steps=steps)


def _report(host: str, ranks: list[int], of: int = 4, status: int = 0) -> Report:
    first, *rest = (_program(rank, of) for rank in ranks)
    command = WatchedCommand(("torchrun",), status, (replace(first, watched=None), *rest), 0)
    return Report(2, machine=replace(NODE, host=host), watched=first.watched, command=command)


def test_a_straggler_on_another_machine_is_found(tmp_path: Path) -> None:
    for host, ranks in (("node0", [0, 1]), ("node1", [2, 3])):
        save(_report(host, ranks), tmp_path / f"{host}.json")
    done = CliRunner().invoke(cli, ["show", "--merge", str(tmp_path)], catch_exceptions=False)
    said = " ".join(done.output.split())
    assert "4 ranks train together. Rank 2 comes last in 100 % of the steps: it waits 30.0 ms longer" in said
    assert "Photos.read (read) takes 30.0 ms of a sample there" in said
    assert "Below: train.py (rank 2, process 102 on node1)." in said
    found = merged([load(one) for one in sorted(tmp_path.iterdir())])
    assert found.watched is not None and found.watched.usable_cores == 12
    assert found.command is not None and found.command.ranks is not None
    assert [one.watched.usable_cores if one.watched else None for one in found.command.programs] == [10, 11, None, 13]
    assert [one.host for one in found.command.programs] == ["node0", "node0", "node1", "node1"]
    assert [one.last_share for one in found.command.ranks.rows] == [0, 0, 1, 0]


def test_a_rank_that_each_machine_watches_alone_is_merged_too() -> None:
    found = merged([_report(f"node{rank}", [rank], status=rank) for rank in (3, 1, 2, 0)])
    assert found.command is not None and found.command.ranks is not None
    assert [one.rank for one in found.command.programs] == [0, 1, 2, 3] and found.command.status == 3
    assert found.command.ranks.straggler == 2


@pytest.mark.parametrize(
    "reports",
    [[], [Report(2)], [_report("a", [0, 1]), _report("b", [1, 2])], [_report("a", [0], 2), _report("b", [1], 4)]],
    ids=["none", "no ranks", "twice", "other trainings"],
)
def test_what_is_not_one_training_is_refused(reports: list[Report]) -> None:
    with pytest.raises(PipebenchError):
        merged(reports)


def test_one_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["show", "report.json", "--merge", str(tmp_path)])
    assert isinstance(done.exception, UsageError)
