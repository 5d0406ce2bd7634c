"""`pipebench watch SCRIPT`: where an unmodified training script spends its time, inside its workers too."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipebench.errors import UsageError
from pipebench.host.whole_files import check_writable, destination
from pipebench.watch.record.options import WatchOptions

if TYPE_CHECKING:
    from pipebench.results.watched import WatchResult
    from pipebench.watch.command import Keep

FILE = click.Path(path_type=Path, dir_okay=False)


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("-m", "module", metavar="MODULE", help="Run a module, as `python -m` does.")
@click.option(
    "--steps", type=click.IntRange(1), metavar="N", help="Record N iterations; the script runs on (--bound: it ends)."
)
@click.option("--bound", is_flag=True, help="Measure what removing all data work could buy; spoils the weights.")
@click.option("--yes-discard-weights", "discard", is_flag=True, help="Agree to that: --bound needs it.")
@click.option("--warmup", type=click.IntRange(0), default=0, metavar="N", help="Keep N iterations out of the tables.")
@click.option("--loader", type=click.IntRange(1), metavar="N", help="Only the N-th loader iterated.")
@click.option("--span", "functions", multiple=True, metavar="MODULE:FUNCTION", help="Time this function too.")
@click.option("--export-json", type=FILE, metavar="FILE", help="Save the result.")
@click.option("--export-trace", type=FILE, metavar="FILE", help="Save a trace that opens in Perfetto.")
@click.option("--force", is_flag=True, help="Let the exports overwrite files.")
@click.argument("command_line", nargs=-1, type=click.UNPROCESSED, metavar="SCRIPT [ARGS]...")
def command(
    module: str | None,
    steps: int | None,
    bound: bool,
    discard: bool,
    warmup: int,
    loader: int | None,
    functions: tuple[str, ...],
    export_json: Path | None,
    export_trace: Path | None,
    force: bool,
    command_line: tuple[str, ...],
) -> int:
    """Run SCRIPT unmodified and say where each iteration's time went; the script's own exit status is returned."""
    if bound and not discard:
        raise UsageError(
            "--bound makes the script train on replayed batches: its weights will be worth nothing",
            "add --yes-discard-weights where no checkpoint that matters can be overwritten",
        )
    argv = [module, *command_line] if module else list(command_line)
    if not argv:
        raise UsageError("there is no script to watch", "name one: pipebench watch train.py [its arguments]")
    export_json, export_trace = _places(export_json, export_trace, force)
    from pipebench.watch.command import watch

    options = WatchOptions(
        steps=steps,
        warmup=warmup,
        loader=loader,
        module=module is not None,
        export_trace=export_trace,
        functions=functions,
        bound=bound,
    )
    return watch(options, argv, saved_at(export_json) if export_json is not None else None)


def _places(export_json: Path | None, export_trace: Path | None, force: bool) -> list[Path | None]:
    """Where the exports go; what cannot be written is refused now, not after hours of training."""
    asked = [place and destination(place, force) for place in (export_json, export_trace)]
    for place in asked:
        if place is not None:
            check_writable(place)
    if asked[0] is not None and asked[0] == asked[1]:
        raise UsageError("--export-json and --export-trace name the same file", "name two files")
    return asked


def saved_at(place: Path) -> Keep:
    """Saves each result at `place` as a report."""

    def keep(result: WatchResult, error_of_watch: str | None) -> None:
        from pipebench.results.report import of_watch, save

        save(of_watch(result, error_of_watch), place)

    return keep
