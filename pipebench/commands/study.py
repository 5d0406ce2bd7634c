"""`pipebench study`: the worked examples, listed or run again here."""

from __future__ import annotations

from pathlib import Path

import click

from pipebench.terminal import delivered, exported, formatted, place, progress


@click.command(short_help="Run a worked example: a slow baseline and its fixes")
@click.argument("name", required=False)
@click.option(
    "--size",
    type=click.Choice(["default", "full"]),
    default="default",
    show_default=True,
    help="full is the size that the author used.",
)
@formatted
@exported
def command(name: str | None, size: str, style: str, export_json: Path | None, force: bool) -> None:
    """Run the study NAME: a slow baseline and its fixes, beside the author's figures. Without NAME, list the studies.

    The output of each fix is first checked against the row before it. The report names each claim of the author that
    does not hold here.
    """
    from pipebench import studies

    if name is None:
        for one in studies.names():
            found = studies.find(one)
            click.echo(f"{found.name:<16}{found.title}\n{'':16}{found.source}")
        return
    export_json = place(export_json, force)
    with progress() as advance:
        result = studies.find(name).run(size, advance)
    from pipebench.results.report import new

    delivered(new(studies=(result,)), style, export_json)
