"""`pipebench watch SCRIPT`: where an unmodified training script spends its time, inside its workers too."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipebench.commands._script import WithCommands, check_alone, check_command, check_script, is_a_command, own_file
from pipebench.errors import UsageError
from pipebench.terminal import formatted, keep, paged, places, rendered
from pipebench.units import printable, quoted
from pipebench.watch.record.options import WatchOptions

if TYPE_CHECKING:
    from pipebench.results.programs import WatchedCommand
    from pipebench.results.report import Report
    from pipebench.results.watched import WatchResult
    from pipebench.watch.command import Keep
    from pipebench.watch.log.sinks import Destination

FILE = click.Path(path_type=Path, dir_okay=False)


@click.command(
    cls=WithCommands,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    short_help="Run a script unmodified and show where its time goes",
)
@click.option("-m", "module", metavar="MODULE", help="Run a module, like `python -m`.")
@click.option(
    "--steps",
    type=click.IntRange(1),
    metavar="N",
    help="Record N iterations. The script runs on; with --bound it ends.",
)
@click.option("--bound", is_flag=True, help="Measure how fast training is without data work. Spoils the weights.")
@click.option("--yes-discard-weights", "discard", is_flag=True, help="Agree that --bound spoils the weights.")
@click.option(
    "--warmup", type=click.IntRange(0), default=0, metavar="N", help="Leave the first N iterations out of the tables."
)
@click.option(
    "--loader",
    type=click.IntRange(1),
    metavar="N",
    help="Limit the tables to the N-th loader of the script. The verdict stays that of the run.",
)
@click.option(
    "--span", "functions", multiple=True, metavar="MODULE:FUNCTION", help="Time this function too (may be repeated)."
)
@click.option(
    "--log",
    "log",
    multiple=True,
    metavar="SINK",
    help="Write series while it runs: csv:FILE, jsonl:FILE, tensorboard:DIR or wandb (may be repeated).",
)
@click.option(
    "--log-every", type=click.IntRange(1), metavar="N", help="With --log: a point each N iterations.  [default: 50]"
)
@click.option("--show-names", is_flag=True, help="With --log: paths in names of stages too.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Save the report of a command in a folder that many machines share, and do not show it.",
)
@click.option("--export-json", type=FILE, metavar="FILE", help="Save the report.")
@paged
@click.option("--export-trace", type=FILE, metavar="FILE", help="Save a trace for Perfetto.")
@click.option("--passport", type=FILE, metavar="FILE", help="Save the costs of batches, for `pipebench plan`.")
@click.option("--full", is_flag=True, help="Show every figure. By default the report fits a screen.")
@click.option("--force", is_flag=True, help="Let exports overwrite files.")
@formatted
@click.argument("command_line", nargs=-1, type=click.UNPROCESSED, metavar="SCRIPT [ARGS]... | -- COMMAND...")
@click.pass_context
def command(
    context: click.Context,
    module: str | None,
    steps: int | None,
    bound: bool,
    discard: bool,
    warmup: int,
    loader: int | None,
    functions: tuple[str, ...],
    log: tuple[str, ...],
    log_every: int | None,
    show_names: bool,
    out: Path | None,
    export_json: Path | None,
    export_html: Path | None,
    export_trace: Path | None,
    passport: Path | None,
    full: bool,
    force: bool,
    style: str,
    command_line: tuple[str, ...],
) -> int:
    """Run SCRIPT unmodified and show where the time of each iteration goes, inside the workers too.

    After `--` comes any COMMAND, such as `torchrun train.py` or a shell script: each Python process that it starts is
    watched. With --bound, all ranks have the same windows; they must be on one machine. The report goes to standard
    error, as JSON or Markdown to standard output; the exit status is that of the script or command.
    """
    is_command = is_a_command(context) and module is None
    if bound:
        _check_bound(discard, passport)
    argv = [module, *command_line] if module else list(command_line)
    if is_command:
        check_command(argv, "watch")
    else:
        check_script(argv, context)
        if bound:
            check_alone(
                "each would choose windows of its own",
                "put pipebench in front of them all: "
                "pipebench watch --bound --yes-discard-weights -- torchrun ... train.py",
            )
    from pipebench.watch.command import out_file, watch

    if out is not None and (not is_command or export_json is not None):
        raise UsageError(
            "--out saves the report of a command, as --export-json does",
            "put -- before the command, or name one of them",
        )
    report_file = own_file(export_json) if out is None else out_file(out)
    sinks = _sinks(log, bound, log_every is not None or show_names)
    files = [Path(one.place) for one in sinks if one.is_file]
    asked = (report_file, *map(own_file, (export_html, export_trace, passport)))
    export_json, export_html, export_trace, passport, *_ = places(force, *asked, *files)
    options = WatchOptions(
        steps=steps,
        warmup=warmup,
        loader=loader,
        module=module is not None,
        command=is_command,
        export_trace=export_trace,
        functions=functions,
        bound=bound,
        log=tuple(map(str, sinks)),
        log_every=log_every or 50,
        show_names=show_names,
    )
    made: list[Report] = []
    kept = saved_at(export_json, passport, export_html, None if style == "table" and out is None else made)
    status = watch(options, argv, kept, full=full, show=style == "table" and out is None)
    if out is not None and export_json is not None:
        _say_where(out, export_json, made if style == "table" else [], full)
    for report in made if style != "table" else []:
        click.echo(rendered(report, style, full), nl=False)
    return status


def _say_where(out: Path, place: Path, made: list[Report], full: bool) -> None:
    """Says where the report is. If it could not be saved, `made` is shown: nobody would see it otherwise."""
    if place.exists():
        merge = quoted(str(out))
        said = f"pipebench: the report is {printable(place)}; `pipebench show --merge {merge}` shows all ranks"
        click.echo(said, err=True)
        return
    for report in made:
        click.echo("\n" + rendered(report, "table", full), nl=False, err=True)


def _sinks(log: tuple[str, ...], bound: bool, more: bool) -> list[Destination]:
    """Where series go: each task of a Slurm job step has places of its own, and so has each attempt.

    Raises `UsageError` for what there is not, and for options that say nothing here.
    """
    from pipebench.host.slurm import own_place
    from pipebench.watch.log.sinks import destinations

    if more and not log:
        raise UsageError("--log-every and --show-names are for --log, which is not there", "add --log csv:FILE")
    if bound and log:
        raise UsageError("--bound trains on replayed batches, which would be in the series of --log", "use one of them")
    return [one._replace(place=own_place(one.place, os.environ)) for one in destinations(log)] if log else []


def saved_at(
    place: Path | None, passport: Path | None = None, page: Path | None = None, made: list[Report] | None = None
) -> Keep | None:
    """Saves each result at `place`, its costs at `passport`, and a page at `page`; adds the report to `made`.

    None: nothing is to be kept.
    """
    if place is None and passport is None and page is None and made is None:
        return None

    def kept(result: WatchResult, error_of_watch: str | None, *command: WatchedCommand) -> None:
        from pipebench.results.report import of_watch

        keep(of_watch(result, error_of_watch, *command), place, passport, page, made)

    return kept


def _check_bound(discard: bool, passport: Path | None) -> None:
    if not discard:
        raise UsageError(
            "--bound trains on replayed batches, which spoils the weights of this run",
            "add --yes-discard-weights if the script can overwrite no checkpoint that you need",
        )
    if passport is not None:
        remedy = "leave out one of them: while batches are replayed, their costs are not recorded"
        raise UsageError("--bound and --passport exclude each other", remedy)
