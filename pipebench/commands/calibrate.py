"""`pipebench calibrate`: how far the instrument's own figures are from a known truth, on this machine."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pipebench.host.terminal import colours, columns
from pipebench.units import printable


@click.command()
@click.option("--full", is_flag=True, help="Also test workers started by spawn and forkserver.")
@click.option("--format", "style", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option(
    "--export-json", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Save the calibration here."
)
@click.option("--force", is_flag=True, help="Let --export-json overwrite a file.")
def command(full: bool, style: str, export_json: Path | None, force: bool) -> int:
    """Measure the error of `pipebench watch` here: it watches pipelines whose true times are known.

    Takes about two minutes. Figures over their goal are marked and explained; the exit status is still 0. Later
    reports of `watch` quote the result.
    """
    if export_json is not None and export_json.exists() and not force:
        raise click.UsageError(f"{printable(export_json)} exists; --force overwrites it")
    from pipebench.calibrate import whole
    from pipebench.calibrate.attribution import plans
    from pipebench.render.calibration import render
    from pipebench.results.calibration import as_json

    found = whole.calibrate(plans(full), lambda line: click.echo(line, nl=False, err=True))
    text = as_json(found)
    if export_json is not None:
        export_json.write_text(text, encoding="utf-8")
    shown = text if style == "json" else render(found, width=columns(sys.stdout), colour=colours(sys.stdout))
    click.echo(shown, nl=False)
    return 0
