"""`pipebench show`: a saved report of any command, shown again."""

from __future__ import annotations

from pathlib import Path

import click

from pipebench.terminal import formatted, of_file


@click.command(short_help="Show a saved report again")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@formatted
@click.option("--full", is_flag=True, help="Show every figure of a watched run. By default they fit a screen.")
def command(file: Path | None, style: str, full: bool) -> None:
    """Show a report that any command saved (without FILE, the latest one of `run`)."""
    from pipebench.host import machine
    from pipebench.results import report

    file = file or machine.cache_folder() / "reports" / "latest.json"
    found = report.load(file)
    click.echo(of_file(found, file, style, full), nl=False)
