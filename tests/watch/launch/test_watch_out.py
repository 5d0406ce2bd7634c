"""`watch --out`: many processes on many machines, as `srun` starts them, save their reports in one shared folder."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from watching import PATIENCE_S, script

from pipebench.cli import cli
from pipebench.errors import UsageError
from pipebench.results.report import load

WATCH = [sys.executable, "-m", "pipebench", "watch"]


def _together(commands: list[list[str]], names: list[dict[str, str]]) -> list[tuple[int, str]]:
    """Runs the commands at the same time: the exit status and standard error of each."""
    begun = [
        subprocess.Popen(one, env={**os.environ, **more}, stderr=subprocess.PIPE, text=True)
        for one, more in zip(commands, names, strict=True)
    ]
    try:
        errors = [one.communicate(timeout=PATIENCE_S)[1] for one in begun]
    finally:
        for one in begun:
            one.terminate()
    return [(one.returncode, error) for one, error in zip(begun, errors, strict=True)]


def test_each_process_saves_a_report_of_its_own_and_says_where(tmp_path: Path) -> None:
    out = tmp_path / "not" / "there"
    restarted = [{"SLURM_RESTART_COUNT": str(number)} for number in range(3)]
    for status, said in _together([[*WATCH, "--out", str(out), "--", "sh", "-c", "exit 3"]] * 3, restarted):
        assert status == 3
        assert len(said.splitlines()) == 1 and f"pipebench show --merge {out}" in said
    found = [load(one).command for one in out.iterdir()]  # nothing else is there: no lock, and no draft
    assert sorted(one.attempt for one in found if one is not None) == [0, 1, 2]
    assert [one.status for one in found if one is not None] == [3, 3, 3]


def test_a_job_that_is_queued_again_trains_on_and_has_files_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt before was ended by SIGTERM, and has saved its report."""
    advised: list[Path | None] = []
    monkeypatch.setattr("pipebench.advise.command.advise", lambda options, *_: advised.append(options.patch))
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    kinds = {"--export-json": "a.json", "--export-html": "a.html", "--export-trace": "t.json", "--passport": "p.json"}
    for name in [*kinds.values(), "a.diff"]:
        (tmp_path / name).touch()
    asked = [word for option, name in kinds.items() for word in (option, str(tmp_path / name))]
    ((status, said),) = _together([[*WATCH, *asked, "--", "sh", "-c", "exit 3"]], [{}])
    assert status == 3 and load(tmp_path / "a.attempt1.json").command is not None, said
    assert (tmp_path / "a.attempt1.html").exists() and not (tmp_path / "a.json").read_text()
    CliRunner().invoke(cli, ["advise", "--patch", str(tmp_path / "a.diff"), "--", "sh"], catch_exceptions=False)
    assert advised == [tmp_path.resolve() / "a.attempt1.diff"]


def test_the_command_that_shows_all_ranks_can_be_pasted_into_a_shell(tmp_path: Path) -> None:
    out = tmp_path / "my runs"
    ((_, said),) = _together([[*WATCH, "--out", str(out), "--", "sh", "-c", "exit 0"]], [{}])
    words = shlex.split(said.split("`")[1])
    assert words == ["pipebench", "show", "--merge", str(out)]


def test_a_report_that_can_no_longer_be_saved_is_shown(tmp_path: Path) -> None:
    """As where a quota ends while the command runs: nobody would see it otherwise."""
    out = tmp_path / "reports"
    spoils = f"rm -r {out}; : > {out}; exit 3"
    ((status, said),) = _together([[*WATCH, "--out", str(out), "--", "sh", "-c", spoils]], [{}])
    assert status == 3 and "cannot write" in said and "Nothing was watched: no Python process" in said


@pytest.mark.parametrize(
    "arguments", [["train.py"], ["--export-json", "one.json", "--", "sh"]], ids=["a script", "two places"]
)
def test_what_out_is_not_for_is_refused(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    arguments = [str(tmp_path / one) if one.endswith(".py") else one for one in arguments]
    done = CliRunner().invoke(cli, ["watch", "--out", str(tmp_path / "reports"), *arguments])
    assert isinstance(done.exception, UsageError) and not (tmp_path / "reports").exists()


@pytest.mark.slow
def test_ranks_that_are_watched_one_by_one_are_compared_in_the_shared_folder(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Each is a task of `srun`: its own watch, its own records in its own folder for temporary files.

    The name of that folder is short: with more than 107 characters, torch cannot hand a batch over (unix(7)).
    """
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        meet = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(one.getsockname()[1]), "WORLD_SIZE": "2"}
    names = [{**meet, "RANK": str(rank), "TMPDIR": str(tmp_path_factory.mktemp("node"))} for rank in range(2)]
    command = [*WATCH, "--out", str(tmp_path / "shared"), "--", sys.executable, script("ranked"), "1", "0.02"]
    assert [status for status, _ in _together([command] * 2, names)] == [0, 0]
    assert len(list((tmp_path / "shared").iterdir())) == 2
    shown = ["show", "--merge", str(tmp_path / "shared"), "--format", "json"]
    ranks = json.loads(CliRunner().invoke(cli, shown, catch_exceptions=False).output)["command"]["ranks"]
    assert (ranks["of"], ranks["straggler"], ranks["part"]) == (2, 1, "wait")
    assert ranks["longer"]["blocked_s"] > 0.015
