"""The command line: one function a command, one error boundary, exit statuses.

0 done (bad samples and skipped rows are counted, not failed); 1 a measurement failed, no sample was good, or a
PipebenchError; 2 usage; 3 a gate failed; 130 interrupted, with what was measured saved.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipebench import __version__, commands
from pipebench.errors import PipebenchError, UsageError
from pipebench.host.whole_files import destination
from pipebench.terminal import exported, formatted, rendered

if TYPE_CHECKING:
    from pipebench.results.report import Report


class _Device(click.ParamType):  # type: ignore[type-arg]  # generic in some versions of click
    """cpu, cuda, or `simulated:` and a duration in s, ms or us: the name, and the seconds of a simulated device."""

    name = "device"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str | None, float | None]:
        if isinstance(value, tuple):
            return value
        if value in ("cpu", "cuda"):
            return value, None
        found = re.fullmatch(r"simulated:(\d+(?:\.\d+)?)(s|ms|us|µs)", value)
        seconds = float(found[1]) * {"s": 1.0, "ms": 1e-3}.get(found[2], 1e-6) if found else 0.0
        if not 0 < seconds <= 60:
            self.fail(f"{value!r} is not cpu, cuda or simulated:25ms (above 0, at most 60 s)", param, ctx)
        return None, seconds


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
    except OSError as error:
        click.echo(f"pipebench: {error.strerror or error}\n  check where its output goes", err=True)
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
@click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    default=0,
    show_default=True,
    help="Seed of crop boxes, masks and flips.",
)
@click.option(
    "--cache", type=click.Choice(["warm", "cold"]), default="warm", show_default=True, help="Page cache state of reads."
)
@click.option(
    "--device",
    type=_Device(),
    help="Of transfer, step and training: cpu or cuda; or, of training, simulated:25ms.  [default: cuda if present]",
)
@click.option("--workers", type=click.IntRange(0, 1024), help="Of training.  [default: usable cores less one]")
@click.option("--prefetch-factor", type=click.IntRange(1), default=2, show_default=True, help="Batches a worker ahead.")
@click.option("--persistent-workers/--no-persistent-workers", default=True, help="Keep workers between epochs.")
@click.option("--pin-memory", is_flag=True, help="Pin batches (always, where they go to a CUDA device).")
@click.option(
    "--start-method", type=click.Choice(["fork", "spawn", "forkserver"]), help="Of workers.  [default: the platform's]"
)
@click.option("--stream", is_flag=True, help="Train over the shards by webdataset, not over single samples.")
@click.option("--steps", type=click.IntRange(1), help="Iterations of training, live and replayed.")
@click.option(
    "--timeout",
    type=click.FloatRange(0.1),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="Without a batch for so long, a worker hangs.",
)
@click.option("--quick", is_flag=True, help="Fewest readings that support 95 %: about 50 s.")
@click.option("--rigorous", is_flag=True, help="More and longer readings: about 20 minutes.")
@click.option("--list", "listing", is_flag=True, help="List stages, tasks and variants, and measure nothing.")
@formatted
@exported
def run(
    stages: tuple[str, ...],
    names: tuple[str, ...],
    listing: bool,
    style: str,
    export_json: Path | None,
    force: bool,
    quick: bool,
    rigorous: bool,
    device: tuple[str | None, float | None] | None,
    batch_size: int | None,
    workers: int | None,
    steps: int | None,
    timeout: float,
    data: str,
    limit: int | None,
    seed: int,
    cache: Any,
    **loading: Any,
) -> int:
    """Measure the machine's ceilings, every variant of every stage, the loader, and training against its bound.

    With --stage or --variant, only those are measured.
    """
    if quick and rigorous:
        raise click.UsageError("--quick and --rigorous exclude each other")
    if export_json is not None:
        export_json = destination(export_json, force)
    from pipebench.lab import whole_run

    selection = whole_run.select(stages, names)
    if listing:
        click.echo(_listing(selection), nl=False)
        return 0
    _say_if_shadowed(data)
    from pipebench.lab.timing import Plan
    from pipebench.reference.watched_training import Length
    from pipebench.results.loading import Loading
    from pipebench.task import Workload

    workload = Workload(data, limit, batch_size or 64, seed=seed, cache=cache, quick=quick)
    length: Length = "quick" if quick else "rigorous" if rigorous else "usual"
    plan = {"quick": Plan.quick, "usual": Plan, "rigorous": Plan.rigorous}[length]()
    name, simulated_s = device or (None, None)
    feeding = None
    if not stages and not names:
        feeding = whole_run.feeding(Loading(timeout_s=timeout, **loading), workers, length, steps, simulated_s)
    return _measured(selection, workload, plan, name, feeding, style, export_json)


def _measured(
    selection: Any,
    workload: Any,
    plan: Any,
    device: str | None,
    feeding: Any,
    style: str,
    export_json: Path | None,
) -> int:
    """Runs the lab with progress, saving after every task; Ctrl-C keeps and shows what there is."""
    from pipebench.lab import whole_run

    kept = _Kept(export_json)
    status = 0
    signal.signal(signal.SIGINT, _interrupt_once)
    try:
        with _progress() as progress:
            whole_run.run(selection, workload, plan, device=device, feeding=feeding, progress=progress, keep=kept)
    except KeyboardInterrupt:
        status = 130
        click.echo(f"pipebench: interrupted; {kept.where}", err=True)
    except PipebenchError:
        if kept.report is not None and kept.report.measurements:
            click.echo(rendered(kept.report, style), nl=False)
        raise
    if kept.report is None:
        return status
    click.echo(rendered(kept.report, style), nl=False)
    reasons = whole_run.unmeasured(kept.report)
    for reason in reasons:
        click.echo(f"pipebench: {reason}", err=True)
    if kept.unsaved is not None and export_json is not None:
        raise kept.unsaved
    return status or (1 if reasons else 0)


class _Kept:
    """The report so far, saved whenever there is more of it: where it was asked for, else as the latest one."""

    def __init__(self, export_json: Path | None) -> None:
        from pipebench.host import machine

        self.report: Report | None = None
        self.unsaved: PipebenchError | None = None
        self._asked = export_json is not None
        self._place = export_json or machine.cache_folder() / "reports" / "latest.json"

    def __call__(self, report: Report) -> None:
        """Keeps and saves; a place that cannot be written ends the run only before anything has been measured."""
        from pipebench.results.report import save

        self.report = report
        self.unsaved = None
        try:
            save(report, self._place)
        except PipebenchError as error:
            if self._asked and not report.measurements:
                raise
            self.unsaved = error

    @property
    def where(self) -> str:
        if self.report is None or self.unsaved is not None:
            return "nothing was saved"
        return f"what was measured is in {_inert(self._place)}"


def _interrupt_once(number: int, frame: object) -> None:
    """The first Ctrl-C interrupts; while what was measured is being saved and shown, further ones do nothing."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


@cli.command()
@click.argument("file", type=click.Path(path_type=Path), required=False)
@formatted
@click.option("--full", is_flag=True, help="Show every figure of a watched run. By default they fit a screen.")
def show(file: Path | None, style: str, full: bool) -> None:
    """Show a report that any command saved (without FILE, the latest one of `run`)."""
    from pipebench.host import machine
    from pipebench.results import report

    found = report.load(file or machine.cache_folder() / "reports" / "latest.json")
    click.echo(rendered(found, style, full), nl=False)


@cli.command()
@click.argument("name", required=False)
@click.option("--limit", type=click.IntRange(1), help="Build so many images instead of the manifest's number.")
def data(name: str | None, limit: int | None) -> None:
    """Build or list the data set NAME and say what it holds (without NAME: which there are)."""
    from pipebench.data import datasets
    from pipebench.units import of_images

    if name is None:
        click.echo("\n".join(datasets.names()))
        return
    _say_if_shadowed(name)
    with _progress() as progress:
        listed = datasets.load(name, limit=limit, progress=progress)
        facts = datasets.describe(listed)
    click.echo(
        f"{listed.name}: {facts.images:,} images in {len(listed.shards)} shards, "
        + of_images(facts.mean_bytes, facts.bits_per_pixel, facts.bits_per_pixel_sd)
    )
    if name == "synthetic":
        photographs = datasets.describe(datasets.load("photos"))
        click.echo(f"photographs of that size spend {photographs.bits_per_pixel or 0:.2f}")
    for problem in listed.problems:
        click.echo(f"{problem.sample}: {problem.message}", err=True)


@cli.group()
def build() -> None:
    """Build the native pieces, into the cache folder."""


@build.command("pillow-simd")
def build_pillow_simd() -> None:
    """Compile pillow-simd (with AVX2 where the CPU has it) beside Pillow, never on top of it."""
    from pipebench.native import building

    with _progress() as progress:
        folder = building.build_pillow_simd(progress=lambda what: progress(0, 0, what))
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


def _say_if_shadowed(name: str) -> None:
    from pipebench.data import datasets

    note = datasets.shadowed(name)
    if note is not None:
        click.echo(f"pipebench: {note}", err=True)


def _inert(path: Path) -> str:
    from pipebench.units import printable

    return printable(path)


class _progress:
    """Progress on standard error: a bar on a terminal, a line for each new activity elsewhere."""

    def __enter__(self) -> Callable[[int, int, str], None]:
        self._what = ""
        self._bar: Any = None
        if sys.stderr is not None and sys.stderr.isatty():
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
