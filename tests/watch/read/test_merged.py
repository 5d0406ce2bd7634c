"""The ranks of one training in the reports of several machines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from made_up_trials import LOADER
from test_ranks import MS, NOTHING, STEPS

from pipebench.cli import cli
from pipebench.errors import PipebenchError, UsageError
from pipebench.host.machine import Machine
from pipebench.render.watch_verdict import next_command
from pipebench.results.next_move import NextMove
from pipebench.results.programs import Program, WatchedCommand
from pipebench.results.ranks import Hang, LastStep, StepOfRank
from pipebench.results.report import Report, load, save
from pipebench.results.watched import StageResult, Verdict, WatchResult
from pipebench.watch.launch.footprint import Footprint
from pipebench.watch.launch.stacks import Looks
from pipebench.watch.read.gather import Process
from pipebench.watch.read.merged import merged
from pipebench.watch.read.programs import Records, programs_of
from pipebench.watch.record.lines import LoaderFound, LoopSums, Moment, PassBegun, ProcessStarted
from pipebench.watch.record.options import WatchOptions
from pipebench.watch.record.program_lines import OwnStep, OwnSteps, ProgramStarted, RankFound

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
    assert not any(one.steps for one in found.command.programs)  # 256 ranks of a long run have more than a million
    assert [one.watched.usable_cores if one.watched else None for one in found.command.programs] == [10, 11, None, 13]
    assert [one.host for one in found.command.programs] == ["node0", "node0", "node1", "node1"]
    assert [one.report for one in found.command.programs] == [0, 0, 1, 1]
    assert [one.last_share for one in found.command.ranks.rows] == [0, 0, 1, 0]


def test_a_rank_that_each_machine_watches_alone_is_merged_too() -> None:
    found = merged([_report(f"node{rank}", [rank], status=rank) for rank in (3, 1, 2, 0)])
    assert found.command is not None and found.command.ranks is not None
    assert [one.rank for one in found.command.programs] == [0, 1, 2, 3] and found.command.status == 3
    assert found.command.ranks.straggler == 2


def test_ranks_of_several_machines_that_hung_are_told_by_durations() -> None:
    last = {1: LastStep(12.0, 0.05, STEPS, 12.0)}
    programs = [
        replace(_program(rank), ended="failed", last_step=last.get(rank, LastStep(15.0, 0.05, STEPS, 0.1)))
        for rank in range(4)
    ]
    reports = [_report(f"node{one.rank}", [one.rank or 0]) for one in programs]
    found = merged(
        [
            replace(report, command=replace(report.command, programs=(replace(one, watched=None),)))
            for report, one in zip(reports, programs, strict=True)
            if report.command is not None
        ]
    )
    assert found.command is not None and found.command.ranks is not None
    assert found.command.ranks.hang == Hang(12.0, (1,), (0, 2, 3))
    assert found.command.shown == 1


@pytest.mark.parametrize("hosts", [{"node0": [0, 1, 2, 3]}, {"node0": [0, 1], "node1": [2, 3]}])
def test_over_several_machines_no_command_is_named_that_needs_one(hosts: dict[str, list[int]]) -> None:
    reports = []
    for host, ranks in hosts.items():
        report = _report(host, ranks)
        assert report.command is not None
        first, *rest = (
            replace(
                figures,
                started="-- torchrun train.py",
                verdict=Verdict("data"),
                next_move=NextMove("raise-num-workers", 2.0, 2, loader=1),
            )
            for figures in map(_figures, ranks)
        )
        programs = report.command.programs
        told = [replace(one, watched=its) for one, its in zip(programs[1:], rest, strict=True)]
        reports.append(replace(report, watched=first, command=replace(report.command, programs=(programs[0], *told))))
    found = merged(reports)
    assert found.command is not None and found.watched is not None
    for figures in (found.watched, *(one.watched for one in found.command.programs if one.watched is not None)):
        said = next_command(figures, of_command=True) or ""
        assert ("`pipebench advise -- torchrun train.py`" in said) == (
            len(hosts) == 1
        ) and figures.next_move is not None


def _attempt(number: int, *reports: Report) -> list[Report]:
    return [replace(one, command=replace(one.command, attempt=number)) for one in reports if one.command is not None]


def test_a_job_that_was_queued_again_continues_its_report(tmp_path: Path) -> None:
    before = _attempt(0, _report("node0", [0, 1], status=9), _report("node1", [2, 3], status=9))
    after = _attempt(1, _report("node7", [0, 1]), _report("node8", [2, 3]))
    found = merged([*after, *before, *_attempt(2, Report(2, command=WatchedCommand(("torchrun",), 1)))])
    assert found.command is not None and found.command.ranks == found.command.earlier[0]
    assert found.command.status == 0
    assert [one.host for one in found.command.programs] == ["node7", "node7", "node8", "node8"]
    for number, one in enumerate([*before, *after]):
        save(one, tmp_path / f"{number}.json")
    done = CliRunner().invoke(cli, ["show", "--merge", str(tmp_path)], catch_exceptions=False)
    said = " ".join(done.output.split())
    assert "Before the job was queued again: 4 ranks train together. Rank 2 comes last in 100 % of the steps" in said


def test_of_ranks_that_were_started_anew_under_one_watch_the_last_are_merged() -> None:
    """As by `torchrun --max-restarts`."""
    one = _report("node", [0, 1], 2)
    assert one.command is not None
    programs = [*(replace(_program(rank, 2), pid=rank, ended="cut") for rank in (0, 1)), *one.command.programs]
    found = merged([replace(one, command=replace(one.command, programs=tuple(programs), shown=2))])
    assert found.command is not None and [each.pid for each in found.command.programs] == [100, 101]


def _of_job(meeting: str, seconds: float, ranks: list[int], of: int, pid: int) -> list[Program]:
    """The ranks of a job that met at a place, and trained for so long."""
    loader = replace(LOADER, iterations=1, s_per_iteration=seconds)
    watched = replace(NOTHING, loaders=(loader,), loaders_in_loop=(1,))
    return [replace(_program(one, of), meeting=meeting, pid=pid + one, watched=watched) for one in ranks]


def _of_command(*jobs: list[Program]) -> Report:
    programs = tuple(one for job in jobs for one in job)
    return Report(2, machine=NODE, watched=NOTHING, command=WatchedCommand(("./job.sh",), 0, programs, 0))


@pytest.mark.parametrize(
    ("reports", "pids"),
    [
        pytest.param(
            [
                _of_command(_of_job("a", 90, [0, 1], 4, 100), _of_job("b", 5, [0, 1], 4, 200)),
                _of_command(_of_job("a", 90, [2, 3], 4, 100), _of_job("b", 5, [2, 3], 4, 200)),
            ],
            [100, 101, 102, 103],
            id="an evaluation on as many ranks",
        ),
        pytest.param(
            [
                _of_command(_of_job("a", 90, [0, 1], 4, 100), _of_job("b", 5, [0, 1], 2, 200)),
                _of_command(_of_job("a", 90, [2, 3], 4, 100)),
            ],
            [100, 101, 102, 103],
            id="an evaluation on fewer ranks",
        ),
        pytest.param(
            [
                _of_command(_of_job("a", 5, [2, 3], 4, 100)),
                _of_command(_of_job("a", 5, [0, 1], 4, 100), _of_job("a", 90, [0, 1], 2, 200)),
            ],
            [200, 201],
            id="a machine was lost, and the others went on",
        ),
        pytest.param(
            [
                _of_command(_of_job("a 0", 5, [0, 1], 4, 100), _of_job("a 1", 90, [0, 1], 4, 200)),
                _of_command(_of_job("a 0", 5, [2, 3], 4, 100), _of_job("a 0", 90, [2, 3], 4, 200)),
            ],
            [200, 201, 202, 203],
            id="started anew, counted by one machine only",
        ),
        pytest.param(
            [
                _of_command(_of_job("b", 90, [2, 3], 4, 200)),
                _of_command(_of_job("a", 5, [0], 4, 100), _of_job("b", 90, [0, 1], 4, 200)),
            ],
            [200, 201, 202, 203],
            id="one rank prepares",
        ),
        pytest.param(
            [_of_command(_of_job("a", 90, [0, 1], 4, 100)), _of_command(_of_job("10.0.0.1", 90, [2, 3], 4, 100))],
            [100, 101, 102, 103],
            id="another name of the address",
        ),
    ],
)
def test_of_several_jobs_of_one_command_the_one_that_trained_longest_is_compared(
    reports: list[Report], pids: list[int]
) -> None:
    found = merged(reports)
    assert found.command is not None and [one.pid for one in found.command.programs] == pids


def _records(rank: int, shift: int) -> Records:
    """A rank on a machine whose clock shows `shift` more."""
    steps = [OwnStep(one, 31 * MS if rank == 1 else MS, MS) for one in range(STEPS)]
    lines = [
        ProcessStarted(100 + rank, "script", shift), ProgramStarted(shift, 1, ["train.py"]), RankFound(rank, 2),
        LoaderFound(1, "Photos", 1, 8, "fork", 2), PassBegun(1, 0, shift),
        LoopSums(1, 0, 1, shift + MS, STEPS, STEPS, [0, 0, 0, 60 * STEPS * MS, 0, 0, 0]), OwnSteps(steps),
        Moment("end", shift + 9000 * MS),
    ]  # fmt: skip
    return Records([Process(lines)], Footprint(), Looks())


def test_clocks_that_differ_by_weeks_change_nothing() -> None:
    """A step is a duration on its own machine's clock, so there is no offset to estimate."""

    def of(shift: int) -> Report:
        made = [programs_of((), [_records(rank, rank * shift)], WatchOptions(), 0, 2.0) for rank in (0, 1)]
        return merged([Report(2, watched=watched, command=command) for watched, command in made])

    assert of(10**15) == of(0) == of(-(10**12))
    command = of(10**15).command
    assert command is not None and command.ranks is not None and command.ranks.straggler == 1


@pytest.mark.parametrize(
    "reports",
    [
        [],
        [Report(2)],
        [_report("a", [0, 1]), _report("b", [1, 2])],
        [_report("a", [0], 2), _report("b", [1], 4)],
        [_report("a", [0], 2), _report("a", [0], 2)],
    ],
    ids=["none", "no ranks", "twice", "other trainings", "two runs"],
)
def test_what_is_not_one_training_is_refused(reports: list[Report]) -> None:
    with pytest.raises(PipebenchError):
        merged(reports)


def test_one_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["show", "report.json", "--merge", str(tmp_path)])
    assert isinstance(done.exception, UsageError)


def test_a_merged_report_that_was_saved_beside_the_others_changes_nothing(tmp_path: Path) -> None:
    for host, ranks in (("node0", [0, 1]), ("node1", [2, 3])):
        save(_report(host, ranks), tmp_path / f"{host}.json")
    line = ["show", "--merge", str(tmp_path), "--export-json", str(tmp_path / "all.json")]
    first = CliRunner().invoke(cli, line, catch_exceptions=False)
    again = CliRunner().invoke(cli, line[:3], catch_exceptions=False)
    assert (tmp_path / "all.json").exists() and again.output == first.output


def test_what_is_in_a_folder_besides_reports_is_said_with_the_remedy(tmp_path: Path) -> None:
    nothing = CliRunner().invoke(cli, ["show", "--merge", str(tmp_path)]).exception
    assert isinstance(nothing, UsageError) and "has no reports" in nothing.problem and "--out" in nothing.remedy
    save(_report("node0", [0, 1], 2), tmp_path / "node0.json")
    (tmp_path / "config.json").write_text('{"hidden_size": 768}')
    other = CliRunner().invoke(cli, ["show", "--merge", str(tmp_path)]).exception
    assert isinstance(other, PipebenchError) and "config.json is not a pipebench report" in other.problem
    assert other.remedy.endswith("or move it out of this folder")


def test_a_folder_in_place_of_a_report_is_answered_with_the_command(tmp_path: Path) -> None:
    error = CliRunner().invoke(cli, ["show", str(tmp_path)]).exception
    assert isinstance(error, UsageError) and f"`pipebench show --merge {tmp_path}`" in error.remedy
