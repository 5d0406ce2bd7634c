"""The command line: the group of commands, one error boundary, exit statuses.

0: done; bad samples and skipped rows are counted, not failed. 1: a measurement failed, no sample was good, or a
PipebenchError. 2: wrong usage. 3: a gate failed. 130: interrupted; what was measured is saved.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import sys

import click

from pipebench import __version__, commands
from pipebench.commands._lab import LAB, not_installed
from pipebench.commands._script import no_option
from pipebench.errors import PipebenchError, UsageError, did_you_mean, remedy_of
from pipebench.host.interrupts import INTERRUPTED, interruptible
from pipebench.terminal import prepared, say
from pipebench.units import printable

_NO_MEMORY = re.compile("failed to map segment|[Cc]annot allocate memory")  # in the words of libraries
_NO_THREAD = "start new thread"  # in Python's: the system does not say which limit was met


class _Commands(click.Group):
    """One command for each module of `pipebench.commands` without a leading `_`, imported when called or listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(one.name for one in pkgutil.iter_modules(commands.__path__) if not one.name.startswith("_"))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in (known := self.list_commands(ctx)) and not args[0].startswith("-"):
            near = did_you_mean(args[0], known)
            raise UsageError(f"there is no command {printable(args[0])!r}", f"{near}`pipebench --help` lists them")
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        found: click.Command = importlib.import_module(f"pipebench.commands.{cmd_name}").command
        return found


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def cli() -> None:
    """Measure a PyTorch input pipeline: what each stage costs here, and whether training waits for data."""


def main() -> None:
    """Runs the command line. An error becomes two lines on standard error and an exit status."""
    prepared()
    try:
        with interruptible() as interrupts:
            _in_its_place()
            status = cli.main(prog_name="pipebench", standalone_mode=False, obj=interrupts)
    except click.NoSuchOption as error:
        status = _said(no_option(error.option_name, error.ctx)) if error.ctx is not None else error.exit_code
    except click.ClickException as error:
        vars(error)["message"] = printable(error.message)  # it may quote an argument
        error.show()
        status = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        status = INTERRUPTED
    except PipebenchError as error:
        status = _said(error)
    except (MemoryError, ImportError, RuntimeError) as error:
        status = _lacking(error)
    except BrokenPipeError:
        sys.stderr.close()
        status = 1
    except OSError as error:
        where = f": {printable(error.filename)}" if error.filename else ""
        status = _said(PipebenchError(f"{error.strerror or error}{where}", remedy_of(error, "mend its output")))
    sys.exit(status if isinstance(status, int) else 0)


def _said(error: PipebenchError) -> int:
    """Says the problem and its remedy, and returns the exit status."""
    say(f"pipebench: {error.problem}")
    say(error.remedy, "  ")
    return 2 if isinstance(error, UsageError) else 1


def _in_its_place() -> None:
    if sys.stdout is None:
        raise PipebenchError("standard output is closed", "send it to a file, or to /dev/null")
    try:
        os.getcwd()
    except OSError as error:
        raise PipebenchError("the current folder does not exist any more", "change to one that exists") from error


def _lacking(error: MemoryError | ImportError | RuntimeError) -> int:
    """Says what is lacking, and returns the exit status. What is another fault is raised again."""
    if isinstance(error, ModuleNotFoundError) and error.name in LAB:
        return _said(not_installed([error.name]))
    if isinstance(error, MemoryError) or _NO_MEMORY.search(str(error)):
        lacks = "there is not enough memory for this process"
        remedy = "free some, or raise its limit (ulimit -v); fewer --workers and smaller batches need less"
    elif _NO_THREAD in str(error):
        lacks = "the system lets this process start no other thread"
        remedy = (
            "raise the limit of processes and threads (ulimit -u, docker run --pids-limit), or free some memory; fewer "
            "--workers need fewer"
        )
    else:
        raise error
    return _said(PipebenchError(lacks, remedy))
