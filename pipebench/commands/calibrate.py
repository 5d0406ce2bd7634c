"""`pipebench calibrate`: how far the instrument's own figures are from a known truth, on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from pipebench.terminal import delivered, exported, formatted, place


@click.command()
@click.option("--full", is_flag=True, help="Also workers that are started with spawn and forkserver.")
@formatted
@exported
def command(full: bool, style: str, export_json: Path | None, force: bool) -> int:
    """Watch pipelines whose truth is known and print the error of each figure; later reports quote it.

    About two minutes. A figure outside its goal is marked and explained; the exit status is 0 all the same.
    """
    export_json = place(export_json, force)
    from pipebench.calibrate import whole
    from pipebench.calibrate.attribution import plans
    from pipebench.results.report import new

    found = whole.calibrate(plans(full), lambda line: click.echo(line, nl=False, err=True))
    delivered(new(calibration=found), style, export_json)
    return 0
