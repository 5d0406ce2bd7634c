"""`pipebench run`: the lab, the loader table and training against its bound."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipebench.commands import _engine
from pipebench.commands._keeping import Kept, Progress, kept_and_shown
from pipebench.commands._lab import need_lab
from pipebench.commands.data import say_if_shadowed
from pipebench.terminal import exported, formatted, laid_out, paged, places, whole

if TYPE_CHECKING:
    from pipebench.render.layout import Line


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


class _Consumer(click.ParamType):  # type: ignore[type-arg]  # generic in some versions of click
    """Images per second, or the `module:function` of a step."""

    name = "consumer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | str:
        if isinstance(value, float) or (":" in value and " " not in value):
            return value
        try:
            rate = float(value)
        except ValueError:
            rate = 0.0
        if not 0 < rate <= 1e9:
            self.fail(f"{value!r} is neither images per second (above 0) nor module:function", param, ctx)
        return rate


@click.command(short_help="Measure every stage and variant, the loader, and training")
@click.option("--stage", "stages", multiple=True, metavar="STAGE", help="Only this stage or task (may be repeated).")
@click.option("--variant", "names", multiple=True, metavar="NAME", help="Only this variant (may be repeated).")
@click.option(
    "--data",
    default="photos",
    show_default=True,
    help="photos, web, tiny, synthetic; or a folder, tar, shards or tables.",
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    help="Number of samples: at most this many of your own data, exactly this many of embedded data.",
)
@click.option("--batch-size", type=click.IntRange(1, 4096), help="Samples in a batch.  [default: 16]")
@click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    default=0,
    show_default=True,
    help="Seed of crop boxes, masks and flips.",
)
@click.option(
    "--cache",
    type=click.Choice(["warm", "cold"]),
    default="warm",
    show_default=True,
    help="State of the page cache for reads.",
)
@click.option(
    "--device",
    type=_Device(),
    help="Device of transfer, step and training: cpu, cuda; for training also simulated:25ms.  [default: cuda if any]",
)
@click.option(
    "--consumer",
    type=_Consumer(),
    metavar="RATE|MODULE:FUNCTION",
    help="What takes the images: a number of images per second, or your step. It is called as step((images, labels)), "
    "on replayed batches too, so its weights are worthless.  [default: published rates, and a small model]",
)
@click.option(
    "--workers",
    type=click.IntRange(0, 1024),
    help="DataLoader workers of the training loop.  [default: usable cores minus one]",
)
@click.option(
    "--prefetch-factor",
    type=click.IntRange(1),
    default=2,
    show_default=True,
    help="Batches that each worker loads ahead.",
)
@click.option("--persistent-workers/--no-persistent-workers", default=True, help="Keep workers between epochs.")
@click.option("--pin-memory", is_flag=True, help="Pin batches in memory. Always on if they go to a CUDA device.")
@click.option(
    "--start-method",
    type=click.Choice(["fork", "spawn", "forkserver"]),
    help="Start method of workers.  [default: the platform's]",
)
@click.option("--stream", is_flag=True, help="Train on shards read by webdataset, not on single samples.")
@click.option("--steps", type=click.IntRange(1), help="Iterations of training, live and replayed together.")
@click.option(
    "--timeout",
    type=click.FloatRange(0.1),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="Report a worker as hung after this long without a batch.",
)
@click.option(
    "--engine",
    type=click.Choice(["torch", "ray"]),
    default="torch",
    show_default=True,
    help="What feeds the training loop. ray: Ray Data beside the DataLoader, and nothing else is measured.",
)
@click.option(
    "--ray-address",
    metavar="HOST:PORT",
    help="The head of a Ray cluster of which this machine is a node.  [default: a cluster of its own, here]",
)
@click.option("--quick", is_flag=True, help="Few processes and wide intervals, for a first look.")
@click.option("--rigorous", is_flag=True, help="More processes and longer readings.")
@click.option("--list", "listing", is_flag=True, help="List stages, tasks and variants, and measure nothing.")
@whole
@formatted
@exported
@paged
def command(
    stages: tuple[str, ...],
    names: tuple[str, ...],
    listing: bool,
    style: str,
    export_json: Path | None,
    export_html: Path | None,
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
    consumer: float | str | None,
    engine: str,
    ray_address: str | None,
    **loading: Any,
) -> int:
    """Measure the ceilings of this machine, every variant of every stage, the loader, and training against its bound.

    With --stage or --variant, only these stages or variants are measured.
    """
    if quick and rigorous:
        raise click.UsageError("--quick and --rigorous exclude each other")
    name, simulated_s = device or (None, None)
    if consumer is not None and simulated_s is not None:
        raise click.UsageError("--consumer and a simulated device exclude each other")
    if consumer is not None and (stages or names):
        raise click.UsageError("--consumer needs the loader, which --stage and --variant leave out")
    without = {"--stage": bool(stages), "--variant": bool(names), "--list": listing, "--stream": loading["stream"],
               "--cache cold": cache == "cold"}  # fmt: skip
    _engine.check(engine, ray_address, without, workers)
    export_json, export_html = places(force, export_json, export_html)
    from pipebench.lab import whole_run

    selection = whole_run.select(stages, names, quick, every=listing)
    if listing:
        click.echo(laid_out(_listing(selection)), nl=False)
        return 0
    need_lab("run")
    say_if_shadowed(data)
    from pipebench.lab.passes import Passes
    from pipebench.reference.watched_training import Length
    from pipebench.results.loading import Loading
    from pipebench.task import Workload

    workload = Workload(data, limit, batch_size or Workload.batch_size, seed=seed, cache=cache, quick=quick)
    length: Length = "quick" if quick else "rigorous" if rigorous else "usual"
    if engine != "torch":
        asked = _engine.Asked(ray_address, workers, steps, name, simulated_s, consumer, length)
        given = Loading(timeout_s=timeout, **loading)
        return _engine.measured(asked, workload, given, style, export_json, export_html)
    passes = {"quick": Passes.quick, "usual": Passes, "rigorous": Passes.rigorous}[length]()
    feeding = None
    if not stages and not names:
        knobs = Loading(timeout_s=timeout, **loading)
        feeding = whole_run.feeding(knobs, workers, length, steps, simulated_s, consumer)

    def measure(advance: Progress, kept: Kept) -> None:
        whole_run.run(selection, workload, passes, device=name, feeding=feeding, progress=advance, keep=kept)

    return kept_and_shown(measure, style, export_json, export_html, whole_run.unmeasured)


def _listing(selection: Any) -> Iterator[Line]:
    """A line for each task, and one for each of its variants with its description."""
    from pipebench import stage
    from pipebench.render.layout import Line

    for task, variants in selection.rows:
        yield Line(f"{task.id}: {task.summary}", hanging="  ")
        width = max(len(one.name) for one in variants)
        for one in variants:
            lossy = f" (gives up {one.gives_up})" if one.gives_up else ""
            mark = "*" if one == stage.reference(task.id) else " "
            text = f"  {mark} {one.name:<{width}}  {one.doc}{lossy}"
            yield Line(text, hanging=" " * (width + (4 if mark == "*" else 2)))
    yield Line("* the reference, which the others must agree with")
