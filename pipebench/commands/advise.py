"""`pipebench advise SCRIPT`: remedies for data loading, tried on an unmodified training script while it trains."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipebench.commands._numbers import Number
from pipebench.commands._script import (
    WithCommands,
    check_alone,
    check_command,
    check_no_rank,
    check_script,
    is_a_command,
    own_file,
)
from pipebench.errors import UsageError
from pipebench.terminal import exported, formatted, keep, paged, places, rendered

if TYPE_CHECKING:
    from pipebench.advise.command import Keep
    from pipebench.results.advice import Advice
    from pipebench.results.report import Report
    from pipebench.results.watched import WatchResult

FILE = click.Path(path_type=Path, dir_okay=False)


@click.command(
    cls=WithCommands,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    short_help="Run a script unmodified and try what makes its loading faster",
)
@click.option("-m", "module", metavar="MODULE", help="Run a module, like `python -m`.")
@click.option(
    "--budget",
    type=Number(10, 1e6),
    default=180.0,
    show_default=True,
    metavar="SECONDS",
    help="Try for so long, from the script's first batch.",
)
@click.option("--stop", is_flag=True, help="End the script when the advice is there. By default it trains on.")
@click.option("--any-order", is_flag=True, help="Also try in_order=False, which changes the order of batches.")
@click.option(
    "--keep-training/--yes-discard-weights",
    "kept",
    default=True,
    help="Keep the training (default), or also try what spoils the weights of this run.",
)
@click.option("--patch", type=FILE, metavar="FILE", help="Write the advice as a unified diff.")
@click.option("--passport", type=FILE, metavar="FILE", help="Save the costs of batches, for `pipebench plan`.")
@click.option("--full", is_flag=True, help="Show every figure of the watched part, too.")
@formatted
@exported
@paged
@click.argument("command_line", nargs=-1, type=click.UNPROCESSED, metavar="SCRIPT [ARGS]... | -- COMMAND...")
@click.pass_context
def command(
    context: click.Context,
    module: str | None,
    budget: float,
    stop: bool,
    any_order: bool,
    kept: bool,
    patch: Path | None,
    passport: Path | None,
    full: bool,
    style: str,
    export_json: Path | None,
    export_html: Path | None,
    force: bool,
    command_line: tuple[str, ...],
) -> int:
    """Run SCRIPT unmodified, and try on its own training loop which changes of its loader make it faster.

    The training is kept: each sample is used once a pass, in the order of the script's sampler. With
    --yes-discard-weights it is not, and the script ends with the advice. After `--` comes any COMMAND, such as
    `torchrun train.py`: all its ranks try each change at the same batches; they must be on one machine. The report
    goes to standard error, as JSON or Markdown to standard output when the script has ended; the exit status is that
    of the script or command.
    """
    argv = [module, *command_line] if module else list(command_line)
    if not argv:
        raise UsageError("there is no script to try", "name one: pipebench advise train.py [its arguments]")
    script = argv[0].endswith(".py") and shutil.which(argv[0]) is None
    is_command = is_a_command(context) and module is None and not script
    if is_command:
        check_command(argv, "advise")
        check_no_rank("advise")
    else:
        check_script(argv, context)
        check_no_rank("advise")
        check_alone(
            "each would measure what is tried on the others, too",
            "put pipebench in front of them all: pipebench advise -- torchrun ... train.py",
        )
    asked = map(own_file, (export_json, export_html, patch, passport))
    export_json, export_html, patch, passport = places(force, *asked)
    from pipebench.advise.command import AdviseOptions, advise

    options = AdviseOptions(
        budget, module is not None, is_command, stop, any_order, not kept, full, patch, show=style == "table"
    )
    made: list[Report] = []
    printed = None if style == "table" else made
    status = advise(options, argv, saved_at(export_json, passport, export_html, printed))
    for report in made:
        click.echo(rendered(report, style, full), nl=False)
    return status


def saved_at(
    file: Path | None, passport: Path | None = None, page: Path | None = None, made: list[Report] | None = None
) -> Keep | None:
    """Saves the advice in `file`, the costs of batches in `passport`, and a page at `page`; adds the report to `made`.

    None: nothing is to be kept.
    """
    if file is None and passport is None and page is None and made is None:
        return None

    def kept(watched: WatchResult | None, advice: Advice) -> None:
        from pipebench.results.report import new

        report = new(watched=watched, advice=advice, partial=advice.ended in ("script-ended", "fault"))
        keep(report, file, passport, page, made)

    return kept
