"""`pipebench study`: the worked examples, listed or run again here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipebench.commands._lab import need_lab
from pipebench.host.interrupts import INTERRUPTED, Interrupts
from pipebench.terminal import delivered, exported, formatted, laid_out, paged, places, progress, say, whole

if TYPE_CHECKING:
    from pipebench.render.layout import Line
    from pipebench.studies import Study


@click.command(short_help="Run a worked example: a slow baseline and its fixes")
@click.argument("name", required=False)
@click.option(
    "--size",
    type=click.Choice(["default", "full"]),
    default="default",
    show_default=True,
    help="full is the size that the author used.",
)
@whole
@formatted
@exported
@paged
def command(
    name: str | None, size: str, style: str, export_json: Path | None, export_html: Path | None, force: bool
) -> int:
    """Run the study NAME: a slow baseline and its fixes, beside the author's figures. Without NAME, list the studies.

    The output of each fix is first checked against the row before it. The report names each claim of the author that
    does not hold here.
    """
    need_lab("study")
    from pipebench import studies

    if name is None:
        click.echo(laid_out(_listing(studies.find(one) for one in studies.names())), nl=False)
        return 0
    study = studies.find(name)
    export_json, export_html = places(force, export_json, export_html)
    interrupts = click.get_current_context().ensure_object(Interrupts)
    try:
        with progress() as advance:
            result = study.run(size, advance)
    except KeyboardInterrupt:
        say("pipebench: interrupted before every step was timed; nothing was saved")
        return INTERRUPTED
    from pipebench.results.report import new

    delivered(new(studies=(result,), partial=interrupts.came), style, export_json, export_html)
    return INTERRUPTED if interrupts.came else 0


def _listing(found: Iterable[Study]) -> Iterator[Line]:
    from pipebench.render.layout import Line

    for one in found:
        yield Line(f"{one.name:<16}{one.title}", hanging=" " * 16)
        yield Line(f"{'':16}{one.source}")
