"""Refuses a command line that names no script, or an option that there is not, before anything is started."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import click

from pipebench.errors import UsageError, did_you_mean
from pipebench.host.slurm import own_place, tasks
from pipebench.units import printable, quoted

_IS_COMMAND = "pipebench: a command"
_SHELL = re.compile(rb"#!\s*(?:\S*/)?(?:env\s+)?(?:\S*/)?(?:ba|da|k|z|fi)?sh(?:\s|\Z)")
_PYTHON = re.compile(r"(?:pypy|python)[\d.]*")
_NOTEBOOK = ".ipynb"
_PYTHON_BY_SHELL = b"\n'''exec' "  # how pip begins a script of an interpreter whose path is too long for the first line


class WithCommands(click.Command):
    """Notes whether `--` stood before the command line: then it is a command, and not a script."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        before = list(args)
        left = super().parse_args(ctx, args)
        line = ctx.params.get("command_line") or ()
        place = len(before) - len(line) - 1
        ctx.meta[_IS_COMMAND] = bool(line) and place >= 0 and before[place] == "--"
        return left


def is_a_command(context: click.Context) -> bool:
    """Whether the command line of a `WithCommands` is any command, and not a script."""
    return bool(context.meta[_IS_COMMAND])


def check_command(argv: Sequence[str], name: str) -> None:
    """Raises `UsageError` for a command that cannot be started. `name` is ours."""
    program = argv[0]
    if shutil.which(program) is None:
        hint = ""
        if program.endswith(".py"):
            hint = f" (pipebench {name} without -- runs a Python script)"
        elif os.path.isfile(program):  # without the right to be executed, or without its folder
            hint = f", or what runs this file: pipebench {name} -- bash {quoted(program)}"
        raise UsageError(f"there is no command {printable(program)}", f"name a program as in a shell{hint}")
    script = next((one for one in argv[1:] if not one.startswith("-")), "")
    if _PYTHON.fullmatch(os.path.basename(program)) and script.lower().endswith(_NOTEBOOK):
        raise _notebook(script, name, f"-- {quoted(program)} ")


def no_option(name: str, context: click.Context) -> UsageError:
    """The error for an option that a command does not have, with the nearest one that it has."""
    options = [option for one in context.command.params if isinstance(one, click.Option) for option in one.opts]
    near = did_you_mean(name, [*options, "--help"])
    return UsageError(
        f"{context.info_name} has no option {printable(name)}", f"{near}`{context.command_path} --help` lists them"
    )


def check_script(argv: Sequence[str], context: click.Context) -> None:
    """Raises `UsageError` if `argv`, the script and its arguments, begins with an unknown option or a notebook."""
    name = context.info_name
    if not argv:
        raise UsageError(f"there is no script to {name}", f"name one: pipebench {name} train.py [its arguments]")
    first = argv[0]
    if first.startswith("-") and len(first) > 1:
        raise no_option(first.partition("=")[0], context)
    if (program := _as_program(first)) is not None:
        raise UsageError(
            f"{printable(first)} is a program, and {name} runs a Python script",
            f"name the script, or put -- before a command: pipebench {name} -- {printable(program)} ...",
        )
    if first.lower().endswith(_NOTEBOOK):
        raise _notebook(first, str(name))


def _notebook(file: str, name: str, before: str = "") -> UsageError:
    """The error for a notebook. `before` comes before the script in the command that can be run."""
    notebook, script = (quoted(one) for one in (file, file[: -len(_NOTEBOOK)] + ".py"))
    return UsageError(
        f"{printable(file)} is a notebook, and {name} runs Python files",
        f"make one: jupyter nbconvert --to script {notebook}; then: pipebench {name} {before}{script}. Inside a "
        "notebook, `%%pipebench` above a cell watches it, after `%load_ext pipebench`",
    )


def check_alone(why: str, remedy: str) -> None:
    """Raises `UsageError` in one of several ranks, which wait for each other in every step."""
    ranks = os.environ.get("WORLD_SIZE", "")
    if ranks.isdigit() and int(ranks) > 1:
        raise UsageError(f"this is one of {ranks} ranks: {why}", remedy)


def check_no_rank(name: str) -> None:
    """Raises `UsageError` if a launcher has started this process as one of several ranks. `name` is ours."""
    number, several = os.environ.get("RANK", ""), tasks(os.environ)
    remedy = (
        "all ranks must be started by one command on one machine, with pipebench in front of it: "
        f"pipebench {name} -- torchrun --nproc-per-node {several if several > 1 else 'N'} train.py"
    )
    if several > 1:
        task = printable(os.environ.get("SLURM_PROCID", "")) or "one"
        raise UsageError(f"this is task {task} of {several} that srun started: it cannot reach the others", remedy)
    if number.isdigit():
        check_alone("it cannot reach the others", remedy)


def own_file(asked: Path | None) -> Path | None:
    """The file for an export of this task of a Slurm job step and of this attempt; None if none was asked for.

    The script of a job that is queued again trains on, whatever the attempt before has left.
    """
    return None if asked is None else Path(own_place(str(asked), os.environ))


def _as_program(file: str) -> str | None:
    """How it is started if it is machine code, such as `python` itself, a shell script, or only a command. Else None.

    Run as Python, these would end in a syntax error.
    """
    if not os.path.exists(file) and shutil.which(file) is not None:
        return file
    try:
        with open(file, "rb") as found:
            begin = found.read(128)
    except OSError:
        return None
    if file.endswith(".sh") or (_SHELL.match(begin) and _PYTHON_BY_SHELL not in begin):
        return f"bash {quoted(file)}"
    return file if begin.startswith(b"\x7fELF") else None
