"""`pipebench data`: which data sets there are, and what one holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pipebench.terminal import as_json, progress, say, text_or_json

if TYPE_CHECKING:
    from pipebench.data.listing import Dataset


@click.command(short_help="List the data sets, or build one and describe it")
@click.argument("name", required=False)
@click.option("--limit", type=click.IntRange(1), help="Build this many images instead of the manifest's number.")
@text_or_json
def command(name: str | None, limit: int | None, style: str) -> None:
    """Build or list the data set NAME and say what it holds (without NAME: which there are)."""
    from pipebench.data import datasets
    from pipebench.units import of_images, printable

    if name is None:
        if style == "json":
            return as_json(data_sets=tuple(datasets.names()))
        return click.echo("\n".join(datasets.names()))
    say_if_shadowed(name)
    with progress() as advance:
        listed = datasets.load(name, limit=limit, progress=advance)
        facts = datasets.describe(listed)
    if style == "json":
        from pipebench.results.report import Data

        bits = (facts.bits_per_pixel, facts.bits_per_pixel_sd)
        data = Data(printable(listed.name), facts.images, facts.mean_bytes, *bits)
        return as_json(data=data, bad_samples=listed.problems)
    click.echo(
        f"{listed.name}: {facts.images:,} images in {_holders(listed)}, "
        + of_images(facts.mean_bytes, facts.bits_per_pixel, facts.bits_per_pixel_sd)
    )
    if name == "synthetic":
        photographs = datasets.describe(datasets.load("photos"))
        click.echo(f"photographs of that size spend {photographs.bits_per_pixel or 0:.2f}")
    if datasets.is_embedded(name):
        click.echo(f"files: {printable(datasets.loose_files(listed))}")
    for problem in listed.problems:
        say(f"{problem.sample}: {problem.message}")


def _holders(listed: Dataset) -> str:
    from pipebench.units import counted

    return counted(len(listed.tables), "table") if listed.tables else f"{len(listed.shards)} shards"


def say_if_shadowed(name: str) -> None:
    """Says on standard error where a path here has the name of an embedded data set."""
    from pipebench.data import datasets

    note = datasets.shadowed(name)
    if note is not None:
        say(f"pipebench: {note}")
