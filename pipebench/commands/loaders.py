"""`pipebench loaders`: one recipe with each loader that is installed, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from pipebench.commands._keeping import Kept, Progress, kept_and_shown
from pipebench.commands._lab import need_lab
from pipebench.commands.data import say_if_shadowed
from pipebench.errors import UsageError
from pipebench.terminal import exported, formatted, laid_out, paged, places, say, whole
from pipebench.units import printable

if TYPE_CHECKING:
    from pipebench.loaders.rounds import Settings
    from pipebench.render.layout import Line
    from pipebench.results.loaders import Filter
    from pipebench.results.report import Report


@click.command(short_help="Compare the loaders that are installed on one recipe")
@click.option("--loader", "names", multiple=True, metavar="NAME", help="Only this loader (may be repeated).")
@click.option("--task", "tasks", multiple=True, type=click.Choice(["antialiased", "not-antialiased"]),
              help="Only with, or only without antialiasing.  [default: both]")  # fmt: skip
@click.option("--data", default="photos", show_default=True,
              help="An embedded data set; or a folder, tar, shards or tables with JPEGs.")  # fmt: skip
@click.option("--images", type=click.IntRange(8, 1_000_000), help="Images in a pass.  [default: 1024; --quick: 256]")
@click.option("--different", type=click.IntRange(1), default=64, show_default=True,
              help="Of these, so many are different; they come again and again.")  # fmt: skip
@click.option("--batch-size", type=click.IntRange(1, 4096), default=32, show_default=True, help="Samples in a batch.")
@click.option("--cores", type=click.IntRange(1), help="Workers or threads, and cores.  [default: all usable ones]")
@click.option("--rounds", type=click.IntRange(2, 100), help="Fresh processes of each loader.  [default: 5; --quick: 3]")
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True, help="Seed of the order.")
@click.option("--quick", is_flag=True, help="Three rounds of short passes, for a first look.")
@click.option("--list", "listing", is_flag=True, help="List the loaders, and measure nothing.")
@whole
@formatted
@exported
@paged
def command(
    names: tuple[str, ...],
    tasks: tuple[str, ...],
    listing: bool,
    quick: bool,
    cores: int | None,
    style: str,
    export_json: Path | None,
    export_html: Path | None,
    force: bool,
    **asked: Any,
) -> int:
    """Run one recipe with each loader: read, decode, random resized crop of 224, flip, batch of uint8.

    All have the same files and the same cores. Each round of each is a fresh process, and the loaders take turns. What
    a loader gives is checked: form, every sample once in a pass, and pixels. With and without antialiasing are two
    tasks, and each has a table.
    """
    from pipebench.loaders import kind

    kinds = list(dict.fromkeys(kind.find(name).name for name in names or kind.names()))
    if listing:
        click.echo(laid_out(_listing(kinds)), nl=False)
        return 0
    need_lab("loaders")
    export_json, export_html = places(force, export_json, export_html)
    say_if_shadowed(asked["data"])
    from pipebench.loaders import rounds
    from pipebench.results.loaders import FILTERS

    given = {name: value for name, value in asked.items() if value is not None}
    settings = (rounds.Settings.quick if quick else rounds.Settings)(cores=_cores(cores), **given)
    wanted: list[Filter] = [one for one in FILTERS if not tasks or one.replace(" ", "-") in tasks]
    return _run(kinds, wanted, settings, style, export_json, export_html)


def _cores(asked: int | None) -> int:
    from pipebench.host import machine

    usable = max(1, int(machine.usable_cores()))
    if asked is not None and asked > usable:
        raise UsageError(f"--cores {asked}: this process may use {usable}", "name at most so many")
    return asked or usable


def _run(
    kinds: list[str], tasks: list[Filter], settings: Settings, style: str, export_json: Path | None,
    export_html: Path | None,
) -> int:  # fmt: skip
    """Runs with progress, saves after every process, and shows what there is, also after Ctrl-C."""
    from pipebench.loaders.rounds import side_by_side
    from pipebench.results.report import new

    bad: list[str] = []
    notes: list[str] = []
    named = click.get_current_context().get_parameter_source("different") is ParameterSource.COMMANDLINE

    def measure(advance: Progress, kept: Kept) -> None:
        found = side_by_side(
            kinds, tasks, settings, advance, lambda found: kept(new(loaders=found, partial=True)),
            left_out=lambda one, why: bad.append(f"{one} ({why})"),
        )  # fmt: skip
        if named and found.different < settings.different:
            why = "--images has no more" if found.different == found.images else "the data has no more JPEGs"
            notes.append(f"--different {settings.different}: {found.different} are used, because {why}.")

    def unmeasured(report: Report) -> list[str]:
        results = report.loaders.results if report.loaders else ()
        return [] if any(one.measured for one in results) else ["no loader was measured"]

    try:
        return kept_and_shown(measure, style, export_json, export_html, unmeasured)
    finally:
        if bad:
            more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
            notes.append(f"Left out: {printable(bad[0])}{more}. `pipebench check` names each.")
        for note in notes:
            say(note)


def _listing(kinds: list[str]) -> Iterator[Line]:
    from pipebench.loaders.kind import find
    from pipebench.render.layout import Line

    width = max(map(len, kinds))
    for one in map(find, kinds):
        yield Line(f"{one.name:<{width}}  {one.title} ({', '.join(one.does)})", hanging=" " * (width + 2))
        if one.source:
            yield Line(f"  {one.source}", address=True)
