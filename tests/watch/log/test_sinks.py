"""The sinks of `--log`: what is asked for, what each writes, and what a fault of one costs."""

from __future__ import annotations

import csv
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from soon import within

from pipebench.cli import cli
from pipebench.commands.watch import _sinks
from pipebench.errors import PipebenchError, UsageError
from pipebench.host.slurm import own_place
from pipebench.watch.log import writers
from pipebench.watch.log.live import Live
from pipebench.watch.log.sinks import Destination, Point, destinations, kinds, opened
from pipebench.watch.log.writers import Log
from pipebench.watch.record.lines import LoopSums
from pipebench.watch.record.program_lines import RankFound
from pipebench.watch.record.record_file import PHASES, encoded

PLACES = {"FILE": "series", "DIR": "runs"}
POINTS = [
    Point(1.5, 50, {"wait_ms": 4.0, "stage_ms/transform.Resize (1 of 2)": 2.0}),
    Point(2.5, 100, {"wait_ms": 6.0}),
]


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    yield
    if "wandb" in sys.modules:
        sys.modules["wandb"].teardown()  # it keeps its settings for as long as its process lives


def turns(count: int) -> bytes:
    phases = [1_000_000] * len(PHASES)
    return encoded(*[LoopSums(1, 0, 1, 1_000_000_000 * one, 1, 1, phases) for one in range(count)])


@contextmanager
def log(*asked: str, said: list[str] | None = None, **how: Any) -> Iterator[Log]:
    """A log of a point for each 2 iterations."""
    found = Log(asked, 2, lambda folder: Live(folder, str), ([] if said is None else said).append, **how)
    try:
        yield found
    finally:
        found.end()


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("kind", kinds())
def test_every_sink_takes_points_and_shows_them_at_once(kind: str, tmp_path: Path) -> None:
    place = kinds()[kind].partition(":")[2]
    (sink,) = opened([Destination(kind, str(tmp_path / PLACES[place]) if place else "")]).values()
    sink.write(POINTS[0])
    before = {path: path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()}
    assert any(before.values())
    sink.write(POINTS[1])
    sink.close()
    assert any(path.stat().st_size > size for path, size in before.items())


def test_the_csv_file_has_a_line_for_each_figure(tmp_path: Path) -> None:
    (sink,) = opened([Destination("csv", str(tmp_path / "a.csv"))]).values()
    for point in POINTS:
        sink.write(point)
    sink.close()
    with open(tmp_path / "a.csv", newline="") as file:
        assert list(csv.reader(file)) == [
            ["at_s", "program", "iteration", "series", "value"],
            ["1.500", "", "50", "wait_ms", "4.0"],
            ["1.500", "", "50", "stage_ms/transform.Resize (1 of 2)", "2.0"],
            ["2.500", "", "100", "wait_ms", "6.0"],
        ]


def test_tensorboard_reads_what_was_written(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (sink,) = opened([Destination("tensorboard", str(tmp_path))]).values()
    for point in POINTS:
        sink.write(point)
    sink.close()
    found = EventAccumulator(str(tmp_path)).Reload()
    assert [(one.wall_time, one.step, one.value) for one in found.Scalars("pipebench/wait_ms")] == [
        (1.5, 50, 4.0),
        (2.5, 100, 6.0),
    ]


@pytest.mark.usefixtures("offline")
def test_wandb_gets_neither_paths_nor_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "pl4nted")
    monkeypatch.setenv("WANDB_RUN_ID", "of-the-script")
    monkeypatch.setattr(sys, "argv", ["pl4nted.py", "--key", "pl4nted"])
    (sink,) = opened([Destination("wandb", "")]).values()
    sink.write(POINTS[0])
    sink.close()
    (run,) = tmp_path.glob("wandb/offline-run-*")
    assert "of-the-script" not in run.name and not list((run / "files").iterdir())
    (sent,) = run.glob("*.wandb")
    with within(60):
        while b"wait_ms" not in (found := sent.read_bytes()):  # its own process writes it
            time.sleep(0.01)
    assert b"pl4nted" not in found and str(tmp_path).encode() not in found and b"of-the-script" not in found


@pytest.mark.parametrize(("kind", "module"), [("tensorboard", "torch.utils.tensorboard"), ("wandb", "wandb")])
def test_a_library_that_is_missing_has_its_remedy(
    kind: str, module: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UsageError, match=f"--log {kind} needs the package {kind}") as raised:
        opened([Destination("csv", str(tmp_path / "a.csv")), Destination(kind, "")])
    assert raised.value.remedy == f"pip install 'pipebench[{kind}]'"
    assert list(tmp_path.iterdir()) == []  # no file of the other sink is left behind


@pytest.mark.parametrize(
    ("asked", "remedy"),
    [
        ("tensorbord:runs", "did you mean tensorboard? --log takes csv:FILE, jsonl:FILE, tensorboard:DIR, wandb"),
        ("", "--log takes csv:FILE, jsonl:FILE, tensorboard:DIR, wandb"),
        ("csv", "write --log csv:FILE"),
        ("tensorboard:", "write --log tensorboard:DIR"),
        ("wandb:project", "write --log wandb"),
    ],
)
def test_what_there_is_not_is_refused(asked: str, remedy: str) -> None:
    with pytest.raises(UsageError) as raised:
        destinations([asked])
    assert raised.value.remedy == remedy


def test_a_tilde_is_the_home_folder_which_no_shell_puts_in_after_a_colon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert destinations(["csv:~/runs/a.csv"]) == [Destination("csv", "/home/me/runs/a.csv")]


def test_a_place_may_hold_a_colon() -> None:
    assert [str(one) for one in destinations(["csv:a:b.csv", "wandb"])] == ["csv:a:b.csv", "wandb"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--log-every", "5"], "--log-every and --show-names are for --log"),
        (["--show-names"], "--log-every and --show-names are for --log"),
        (["--log", "csv:new", "--bound", "--yes-discard-weights"], "--bound trains on replayed batches"),
        (["--log", "csv:there"], "there exists; --force overwrites it"),
        (["--log", "csv:new", "--log", "jsonl:new"], "two of the exports name the same file"),
        (["--log", "csv:new", "--export-json", "new"], "two of the exports name the same file"),
    ],
)
def test_the_command_refuses_before_anything_is_started(
    options: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").write_text("")
    done = CliRunner().invoke(cli, ["watch", *options, "train.py"])
    assert isinstance(done.exception, UsageError) and said in done.exception.problem
    assert not (tmp_path / "new").exists()


def test_several_programs_are_told_apart(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("first", "second", "third", "idle")]
    for folder, lines in zip(folders, (turns(2), turns(4), encoded(RankFound(3, 4)) + turns(2), b""), strict=True):
        folder.mkdir()
        (folder / "1-0.spans").write_bytes(lines)
    with log(f"jsonl:{tmp_path / 'a'}") as found, found.following(lambda: folders):
        pass
    points = [json.loads(line) for line in (tmp_path / "a").read_text().splitlines()]
    assert [(one["program"], one["iteration"]) for one in points] == [
        ("", 2), ("program2", 2), ("program2", 4), ("rank3", 2),
    ]  # fmt: skip
    assert next(iter(Point(**points[3]).named())) == "pipebench/rank3/wait_share"


def test_a_sink_that_cannot_be_opened_is_said_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(PipebenchError, match="--log does not work: IsADirectoryError: "):
        Log([f"csv:{tmp_path}"], 2, lambda folder: Live(folder, str), print)


def test_a_full_disk_costs_one_line_and_the_other_sinks_go_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "1-0.spans").write_bytes(turns(6))
    with log("csv:/dev/full", f"jsonl:{tmp_path / 'a'}") as found, found.following(lambda: [tmp_path]):
        pass
    assert len((tmp_path / "a").read_text().splitlines()) == 3
    said = "pipebench: --log csv:/dev/full ends here (OSError: [Errno 28] No space left on device); the run goes on\n"
    assert capfd.readouterr().err == said


def test_a_sink_that_hangs_is_ended(tmp_path: Path) -> None:
    """As one does whose server is down: nobody reads the other end of this file."""
    (tmp_path / "1-0.spans").write_bytes(turns(4000))
    os.mkfifo(tmp_path / "fifo")
    reads, said = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK), list[str]()
    with (
        log(f"jsonl:{tmp_path / 'fifo'}", said=said, patience_s=0.2) as found,
        found.following(lambda: [tmp_path]),
    ):
        pass
    os.close(reads)
    assert said == ["pipebench: --log was not done after 0.2 s, and was ended\n"]
    assert found._writing.returncode == -9


def test_a_sink_that_hangs_while_it_opens_does_not_keep_the_script(tmp_path: Path) -> None:
    """Nobody ever reads this file, so it never opens."""
    (tmp_path / "1-0.spans").write_bytes(turns(4))
    os.mkfifo(tmp_path / "fifo")
    said = list[str]()
    with log(f"csv:{tmp_path / 'fifo'}", said=said, opens_s=0.0) as found, found.following(lambda: [tmp_path]):
        pass
    assert said == ["pipebench: --log was not open after 0 s, and was ended; the run goes on\n"]
    assert found._writing.returncode == -9


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1"])
def test_a_signal_for_the_script_does_not_end_the_process_of_sinks(name: str, tmp_path: Path) -> None:
    """Slurm sends it to every process of a job step. The script may train on, or save its weights."""
    said: list[str] = []
    with log(f"jsonl:{tmp_path / 'a'}", said=said) as found:
        os.kill(found._writing.pid, signal.Signals[name])
        (tmp_path / "1-0.spans").write_bytes(turns(2))
        with found.following(lambda: [tmp_path]):
            pass
    assert said == [] and len((tmp_path / "a").read_text().splitlines()) == 1


def test_a_process_of_sinks_that_dies_costs_one_line(tmp_path: Path) -> None:
    said: list[str] = []
    with log(f"jsonl:{tmp_path / 'a'}", said=said) as found:
        found._kill()
        (tmp_path / "1-0.spans").write_bytes(turns(2))
        with found.following(lambda: [tmp_path]):
            pass
    assert said == ["pipebench: --log ends here, because its process has ended; the run goes on\n"]


def test_a_fault_of_ours_costs_one_line(tmp_path: Path) -> None:
    def fails() -> list[Path]:
        raise ValueError("planted")

    said: list[str] = []
    with log(f"jsonl:{tmp_path / 'a'}", said=said) as found, found.following(fails):
        pass
    assert len(said) == 1 and said[0].startswith(
        "pipebench: --log ends here, because of a fault of pipebench (ValueError"
    )


def test_points_are_written_while_the_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "_FIRST_S", 0.001)
    (tmp_path / "1-0.spans").write_bytes(turns(2))
    with log(f"jsonl:{tmp_path / 'a'}") as found, found.following(lambda: [tmp_path]), within(60):
        while not (tmp_path / "a").read_text():
            time.sleep(0.001)


@pytest.mark.parametrize(
    ("names", "place"),
    [
        ({}, "runs/a.csv"),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_RESTART_COUNT": "0"}, "runs/a.csv"),  # below sbatch
        ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}, "runs/a.csv"),
        ({"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "8"}, "runs/a.task3.csv"),
        ({"SLURM_RESTART_COUNT": "2"}, "runs/a.attempt2.csv"),
        ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_RESTART_COUNT": "1"}, "runs/a.task0.attempt1.csv"),
        ({"SLURM_PROCID": "", "SLURM_STEP_NUM_TASKS": "many", "SLURM_RESTART_COUNT": "-1"}, "runs/a.csv"),
    ],
)
def test_each_task_of_slurm_and_each_attempt_has_a_place_of_its_own(
    names: dict[str, str], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second task of a job, and a job that was queued again, ended with "there exists"."""
    for name in ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_RESTART_COUNT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in names.items():
        monkeypatch.setenv(name, value)
    assert _sinks(("csv:runs/a.csv", "wandb"), False, False) == [Destination("csv", place), Destination("wandb", "")]
    assert destinations(["csv:runs/a.csv"]) == [Destination("csv", "runs/a.csv")]  # the process that writes asks again
    task = {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}
    assert (own_place("logs", task), own_place(".", task)) == ("logs.task1", ".")
