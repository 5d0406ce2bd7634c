"""`pipebench calibrate`: how far the instrument's own figures are from a known truth, on this machine."""

from __future__ import annotations

import click


@click.command()
@click.option("--full", is_flag=True, help="Also workers that are started with spawn and forkserver.")
def command(full: bool) -> int:
    """Watch pipelines whose truth is known and print the error of each figure; later reports quote it."""
    from pipebench import calibrate

    found = calibrate.calibrate(calibrate.plans(full), progress=lambda line: click.echo(line, nl=False, err=True))
    click.echo(calibrate.render(found), nl=False)
    return 0
