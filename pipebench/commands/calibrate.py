"""`pipebench calibrate`: how far the instrument's own figures are from a known truth, on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from pipebench.units import printable


@click.command()
@click.option("--full", is_flag=True, help="Also workers that are started with spawn and forkserver.")
@click.option("--format", "style", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option(
    "--export-json", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Save the calibration here."
)
@click.option("--force", is_flag=True, help="Let --export-json overwrite a file.")
def command(full: bool, style: str, export_json: Path | None, force: bool) -> int:
    """Watch pipelines whose truth is known and print the error of each figure; later reports quote it.

    About two minutes. A figure outside its goal is marked and explained; the exit status is 0 all the same.
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
    click.echo(text if style == "json" else render(found), nl=False)
    return 0
