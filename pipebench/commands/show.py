"""`pipebench show`: a saved report of any command, shown again."""

from __future__ import annotations

from pathlib import Path

import click

from pipebench.errors import UsageError
from pipebench.terminal import formatted, of_file


@click.command(short_help="Show a saved report again")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@formatted
@click.option(
    "--merge",
    "folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="FOLDER",
    help="Show the ranks in all reports of a folder together, one report from each machine.",
)
@click.option("--full", is_flag=True, help="Show every figure of a watched run. By default they fit a screen.")
def command(file: Path | None, style: str, folder: Path | None, full: bool) -> None:
    """Show a report that any command saved (without FILE, the latest one of `run`)."""
    from pipebench.host import machine
    from pipebench.results import report

    if folder is not None and file is not None:
        raise UsageError("FILE is one report, and --merge takes a folder of them", "give one of the two")
    place = folder or file or machine.cache_folder() / "reports" / "latest.json"
    if folder is None:
        found = report.load(place)
    else:
        from pipebench.watch.read.merged import merged

        found = merged([report.load(one) for one in sorted(folder.glob("*.json"))])
    click.echo(of_file(found, place, style, full), nl=False)
