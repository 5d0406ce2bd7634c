"""`pipebench study`: the worked examples, listed or run again here."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pipebench.terminal import delivered, exported, formatted, place


@click.command()
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
    result = studies.find(name).run(size, _Progress())
    from pipebench.results.report import new

    delivered(new(studies=(result,)), style, export_json)


class _Progress:
    """Progress on standard error: a line that is written over on a terminal, one for each new activity elsewhere."""

    def __init__(self) -> None:
        self._said = ""

    def __call__(self, done: int, total: int, what: str) -> None:
        if sys.stderr.isatty():
            click.echo(f"\r\x1b[K{what} {done}/{total}" + ("\r\x1b[K" if done == total else ""), nl=False, err=True)
        elif what != self._said:
            click.echo(what, err=True)
        self._said = what
