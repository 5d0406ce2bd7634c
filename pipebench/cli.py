"""The command line: one function a command, one error boundary, exit statuses.

0 done (bad samples and skipped rows are counted, not failed); 1 a measurement failed, no sample was good, or a
PipebenchError; 2 usage; 3 a gate failed; 130 interrupted, with what was measured saved.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipebench import __version__, commands
from pipebench.errors import PipebenchError, UsageError

if TYPE_CHECKING:
    from pipebench.report import Report

FORMATS = click.Choice(["table", "json", "markdown"])


class _Commands(click.Group):
    """The commands below, and one for each module of `pipebench.commands`, imported only when asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *(found.name for found in pkgutil.iter_modules(commands.__path__))])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        known = super().get_command(ctx, cmd_name)
        if known is not None or cmd_name not in self.list_commands(ctx):
            return known
        found: click.Command = importlib.import_module(f"pipebench.commands.{cmd_name}").command
        return found


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def cli() -> None:
    """What each stage of a PyTorch training input pipeline costs, and how far it is from what this machine can do."""


def main() -> None:
    """Runs the command line and turns what goes wrong into two lines and an exit status."""
    try:
        status = cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except click.Abort:
        status = 130
    except PipebenchError as error:
        click.echo(f"pipebench: {error.problem}\n  {error.remedy}", err=True)
        status = 2 if isinstance(error, UsageError) else 1
    except BrokenPipeError:
        sys.stderr.close()
        status = 1
    sys.exit(status if isinstance(status, int) else 0)


@cli.command()
@click.option("--stage", "stages", multiple=True, metavar="STAGE", help="Only this stage or task (may be repeated).")
@click.option("--variant", "names", multiple=True, metavar="NAME", help="Only this variant (may be repeated).")
@click.option(
    "--data", default="photos", show_default=True, help="photos, web, tiny, synthetic; or a folder, tar or shards."
)
@click.option("--limit", type=click.IntRange(1), help="Use at most (or, of embedded data, exactly) so many samples.")
@click.option("--batch-size", type=click.IntRange(1, 4096), help="Samples in a batch.  [default: 64]")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of crop boxes, masks and flips.")
@click.option(
    "--cache", type=click.Choice(["warm", "cold"]), default="warm", show_default=True, help="Page cache state of reads."
)
@click.option(
    "--device", type=click.Choice(["cpu", "cuda"]), help="Of transfer and step.  [default: cuda if there is one]"
)
@click.option("--quick", is_flag=True, help="Fewest readings that support 95 %: about 30 s.")
@click.option("--rigorous", is_flag=True, help="More and longer readings: about 10 minutes.")
@click.option("--list", "listing", is_flag=True, help="List stages, tasks and variants, and measure nothing.")
@click.option(
    "--format", "style", type=FORMATS, default="table", show_default=True, help="Of what goes to standard output."
)
@click.option(
    "--export-json", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Save the report here."
)
@click.option("--force", is_flag=True, help="Let --export-json overwrite a file.")
def run(
    stages: tuple[str, ...],
    names: tuple[str, ...],
    listing: bool,
    style: str,
    export_json: Path | None,
    force: bool,
    quick: bool,
    rigorous: bool,
    device: str | None,
    batch_size: int | None,
    **knobs: Any,
) -> int:
    """Measure the machine's ceilings, then every variant of every stage, and say which is fastest."""
    if quick and rigorous:
        raise click.UsageError("--quick and --rigorous exclude each other")
    if export_json is not None and export_json.exists() and not force:
        raise click.UsageError(f"{_inert(export_json)} exists; --force overwrites it")
    from pipebench import lab

    selection = lab.select(stages, names)
    if listing:
        click.echo(_listing(selection), nl=False)
        return 0
    from pipebench.measure import Plan
    from pipebench.stage import Workload

    workload = Workload(batch_size=batch_size or 64, quick=quick, **knobs)
    plan = Plan.quick() if quick else Plan.rigorous() if rigorous else Plan()
    return _measured(selection, workload, plan, device, style, export_json)


def _measured(
    selection: Any, workload: Any, plan: Any, device: str | None, style: str, export_json: Path | None
) -> int:
    """Runs the lab with progress, saving after every task; Ctrl-C keeps and shows what there is."""
    from pipebench import lab, machine, report

    kept: list[Report] = []
    place = export_json or machine.cache_folder() / "reports" / "latest.json"

    def keep(so_far: Report) -> None:
        kept[:] = [so_far]
        report.save(so_far, place)

    status = 0
    try:
        with _progress() as progress:
            lab.run(selection, workload, plan, device=device, progress=progress, keep=keep)
    except KeyboardInterrupt:
        status = 130
        saved = f"what was measured is in {_inert(place)}" if kept else "nothing had been measured"
        click.echo(f"pipebench: interrupted; {saved}", err=True)
    except PipebenchError:
        if kept:
            click.echo(_rendered(kept[0], style), nl=False)
        raise
    if not kept:
        return status
    click.echo(_rendered(kept[0], style), nl=False)
    reasons = lab.unmeasured(kept[0])
    for reason in reasons:
        click.echo(f"pipebench: {reason}", err=True)
    return status or (1 if reasons else 0)


@cli.command()
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--format", "style", type=FORMATS, default="table", show_default=True)
def show(file: Path | None, style: str) -> None:
    """Show a saved report again (without FILE, the latest one)."""
    from pipebench import machine, report

    click.echo(_rendered(report.load(file or machine.cache_folder() / "reports" / "latest.json"), style), nl=False)


@cli.command()
@click.argument("name", required=False)
@click.option("--limit", type=click.IntRange(1), help="Build so many images instead of the manifest's number.")
def data(name: str | None, limit: int | None) -> None:
    """Build or list the data set NAME and say what it holds (without NAME: which there are)."""
    from pipebench import datasets
    from pipebench.units import size

    if name is None:
        click.echo("\n".join(datasets.names()))
        return
    with _progress() as progress:
        listed = datasets.load(name, limit=limit, progress=progress)
        facts = datasets.describe(listed)
    click.echo(
        f"{listed.name}: {facts.images:,} images in {len(listed.shards)} shards, {size(facts.mean_bytes)} each, "
        f"{facts.bits_per_pixel:.2f} ± {facts.bits_per_pixel_sd:.2f} bits a pixel"
    )
    if name == "synthetic":
        click.echo(f"photographs of that size spend {datasets.describe(datasets.load('photos')).bits_per_pixel:.2f}")
    for problem in listed.problems:
        click.echo(f"{problem.sample}: {problem.message}", err=True)


@cli.group()
def build() -> None:
    """Build the native pieces, into the cache folder."""


@build.command("pillow-simd")
def build_pillow_simd() -> None:
    """Compile pillow-simd (with AVX2 where the CPU has it) beside Pillow, never on top of it."""
    from pipebench import native

    with _progress() as progress:
        folder = native.build_pillow_simd(progress=lambda what: progress(0, 0, what))
    click.echo(_inert(folder))


def _listing(selection: Any) -> str:
    from pipebench import stage

    lines = []
    for task, variants in selection.rows:
        lines.append(f"{task.id}: {task.summary}")
        width = max(len(one.name) for one in variants)
        for one in variants:
            lossy = f" (gives up {one.gives_up})" if one.gives_up else ""
            mark = "*" if one == stage.reference(task.id) else " "
            lines.append(f"  {mark} {one.name:<{width}}  {one.doc}{lossy}")
    return "\n".join([*lines, "* the reference, which the others must agree with", ""])


def _rendered(found: Report, style: str) -> str:
    import shutil

    from pipebench import report
    from pipebench.render import text

    if style == "json":
        return report.encode(found).decode()
    if style == "markdown":
        return text.markdown(found)
    import os

    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size((110, 40)).columns if terminal else 110
    return text.table(found, width=max(80, width), colour=terminal and "NO_COLOR" not in os.environ)


def _inert(path: Path) -> str:
    from pipebench.units import printable

    return printable(path)


class _progress:
    """Progress on standard error: a bar on a terminal, a line for each new activity elsewhere."""

    def __enter__(self) -> Callable[[int, int, str], None]:
        self._what = ""
        self._bar: Any = None
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
            self._id = self._bar.add_task("starting", total=None)
        return self._advance

    def _advance(self, done: int, total: int, what: str) -> None:
        if self._bar is not None:
            self._bar.update(self._id, completed=done, total=total or None, description=what)
        elif what != self._what:
            click.echo(what, err=True)
        self._what = what

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
