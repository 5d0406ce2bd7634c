"""The command line: the group of commands, one error boundary, exit statuses.

0: done; bad samples and skipped rows are counted, not failed. 1: a measurement failed, no sample was good, or a
PipebenchError. 2: wrong usage. 3: a gate failed. 130: interrupted; what was measured is saved.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys

import click

from pipebench import __version__, commands
from pipebench.errors import PipebenchError, UsageError
from pipebench.terminal import in_width


class _Commands(click.Group):
    """One command for each module of `pipebench.commands` without a leading `_`, imported when called or listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(one.name for one in pkgutil.iter_modules(commands.__path__) if not one.name.startswith("_"))

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
    try:
        status = cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except click.Abort:
        status = 130
    except PipebenchError as error:
        click.echo(f"{in_width(f'pipebench: {error.problem}')}\n{in_width(error.remedy, '  ')}", err=True)
        status = 2 if isinstance(error, UsageError) else 1
    except BrokenPipeError:
        sys.stderr.close()
        status = 1
    except OSError as error:
        click.echo(f"pipebench: {error.strerror or error}\n  check where its output goes", err=True)
        status = 1
    sys.exit(status if isinstance(status, int) else 0)
