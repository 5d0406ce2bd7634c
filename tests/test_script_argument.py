"""A command line that names no script is refused, with what to type instead. Nothing is started."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click
import pytest

from pipebench.commands._script import check_no_rank, check_script
from pipebench.commands.advise import command as advise
from pipebench.commands.watch import command as watch
from pipebench.errors import UsageError
from pipebench.host.slurm import tasks


def _refused(argv: list[str], command: click.Command = watch, name: str = "watch") -> tuple[str, str]:
    with pytest.raises(UsageError) as found:
        command.main(argv, name, standalone_mode=False)
    return found.value.problem, found.value.remedy


@pytest.mark.parametrize("argv", [["--stpes", "5", "train.py"], ["--stpes=5", "train.py"], ["--full", "--stpes"]])
def test_an_option_that_is_misspelt_is_not_taken_for_a_script(argv: list[str]) -> None:
    assert _refused(argv) == ("watch has no option --stpes", "did you mean --steps? `watch --help` lists them")


def test_the_same_for_advise() -> None:
    found = _refused(["--bugdet", "5", "train.py"], advise, "advise")
    assert found == ("advise has no option --bugdet", "did you mean --budget? `advise --help` lists them")


def test_without_an_option_of_that_kind_the_help_is_named() -> None:
    assert _refused(["--zzz", "train.py"])[1] == "`watch --help` lists them"


@pytest.mark.parametrize("span", ["collate", "train:", ":collate", "train.py", "my mod:f", "a:b:c", "train.py:collate"])
def test_a_function_without_its_module_is_refused(tmp_path: Path, span: str) -> None:
    (tmp_path / "train.py").touch()
    problem, remedy = _refused(["--span", span, str(tmp_path / "train.py")])
    assert problem == f"{span!r} names no function to time"
    assert remedy.startswith("write MODULE:FUNCTION, as __main__:")
    assert span != "collate" or remedy.startswith("write MODULE:FUNCTION, as __main__:collate for")


def test_a_notebook_is_refused_with_the_recipe() -> None:
    problem, remedy = _refused(["folder/train.ipynb"])
    assert problem == "folder/train.ipynb is a notebook, and watch runs Python files"
    assert "jupyter nbconvert --to script folder/train.ipynb; then: pipebench watch folder/train.py" in remedy
    _, remedy = _refused(["my first.ipynb"])
    assert "--to script 'my first.ipynb'; then: pipebench watch 'my first.py'" in remedy
    assert "`%%pipebench` above a cell" in remedy


def test_so_is_one_that_a_command_gives_to_python() -> None:
    problem, remedy = _refused(["--", sys.executable, "-u", "train.ipynb"])
    assert problem == "train.ipynb is a notebook, and watch runs Python files"
    assert f"--to script train.ipynb; then: pipebench watch -- {sys.executable} train.py. Inside" in remedy


def test_a_program_in_place_of_a_script_is_refused() -> None:
    """`advise -- python -m torch.distributed.run ...` ended in a syntax error of the script `python`."""
    for command, name in ((advise, "advise"), (watch, "watch")):
        problem, remedy = _refused([sys.executable, "-m", "torch.distributed.run"], command, name)
        assert problem == f"{sys.executable} is a program, and {name} runs a Python script"
        assert remedy == f"name the script, or put -- before a command: pipebench {name} -- {sys.executable} ..."
        assert _refused(["sh", "-c", "true"], command, name)[0] == f"sh is a program, and {name} runs a Python script"


def test_advise_is_refused_on_one_of_several_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    problem, remedy = _refused(["train.py"], advise, "advise")
    assert problem.startswith("this is one of 2 ranks") and "pipebench advise -- torchrun ... train.py" in remedy


def test_a_command_of_advise_that_there_is_not_is_refused() -> None:
    problem, remedy = _refused(["--", "torchrum", "train.py"], advise, "advise")
    assert (problem, remedy) == ("there is no command torchrum", "name a program as in a shell")


def test_bound_is_refused_on_one_of_several_ranks_which_would_choose_windows_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    problem, remedy = _refused(["--bound", "--yes-discard-weights", "train.py"])
    assert problem == "this is one of 2 ranks: each would choose windows of its own"
    assert "pipebench watch --bound --yes-discard-weights -- torchrun ... train.py" in remedy


def test_options_of_the_script_are_its_own() -> None:
    for argv in (["train.py", "--stpes", "5"], ["-"]):
        check_script(argv, click.Context(watch, info_name="watch"))


def test_a_shell_script_that_may_not_be_executed_is_answered_with_what_runs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run all.sh").write_text("true\n")
    monkeypatch.chdir(tmp_path)
    for file in ("run all.sh", "./run all.sh"):
        problem, remedy = _refused(["--", file])
        assert problem == f"there is no command {file}" and remedy.endswith(f"pipebench watch -- bash '{file}'")


@pytest.mark.parametrize(
    ("name", "begin", "refused"),
    [
        ("run.sh", "true\n", True),
        ("run all", "#!/usr/bin/env bash\n", True),
        ("run", "#! /bin/sh -e\n", True),
        ("run", "#!/home/me/sh-tools/bin/python3\n", False),
        ("run", "#!/bin/sh\n'''exec' /a/long/path/bin/python3 \"$0\" \"$@\"\n' '''\n", False),
        ("run.py", "#!/usr/bin/env python3\n", False),
    ],
)
def test_a_shell_script_is_not_run_as_python(
    name: str, begin: str, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).write_text(begin)
    monkeypatch.chdir(tmp_path)
    context = click.Context(watch, info_name="watch")
    if not refused:
        check_script([name], context)
        return
    with pytest.raises(UsageError, match="is a program") as error:
        check_script([name], context)
    assert error.value.remedy.endswith(f"pipebench watch -- bash {shlex.quote(name)} ...")


STEP = {"SLURM_PROCID": "1", "SLURM_NTASKS": "2"}


@pytest.mark.parametrize(
    ("names", "several"),
    [
        (STEP, 2),
        ({**STEP, "SLURM_PROCID": "0"}, 2),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, 1),
        ({"SLURM_NTASKS": "4"}, 1),  # a shell of `salloc`
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "ENVIRONMENT": "BATCH"}, 1),  # the script of `sbatch`
        ({**STEP, "ENVIRONMENT": "BATCH", "SLURM_STEP_NUM_TASKS": "2"}, 2),  # `srun` in it
        ({**STEP, "ENVIRONMENT": "BATCH", "SLURM_STEP_NUM_TASKS": "1"}, 1),
        ({}, 1),
    ],
)
def test_advise_is_refused_on_one_of_several_tasks_of_srun(
    names: dict[str, str], several: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tasks(names) == several
    for name in ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_NUM_TASKS", "ENVIRONMENT", "RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in names.items():
        monkeypatch.setenv(name, value)
    if several == 1:
        check_no_rank("advise")
        return
    for argv in (["train.py"], ["--", sys.executable, "train.py"]):
        problem, remedy = _refused(argv, advise, "advise")
        task = names["SLURM_PROCID"]
        assert problem == f"this is task {task} of 2 that srun started: it cannot reach the others"
        assert remedy.startswith("all ranks must be started by one command on one machine")
        assert remedy.endswith("pipebench advise -- torchrun --nproc-per-node 2 train.py")


def test_advise_of_a_command_is_refused_on_a_rank_of_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    problem, remedy = _refused(["--", sys.executable, "train.py"], advise, "advise")
    assert problem == "this is one of 2 ranks: it cannot reach the others" and "one command on one machine" in remedy
