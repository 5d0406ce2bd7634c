"""`pipebench show`: a saved report of any command, shown again."""

from __future__ import annotations

from pathlib import Path

import click

from pipebench.terminal import formatted, rendered


@click.command(short_help="Show a saved report again")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@formatted
@click.option("--full", is_flag=True, help="Show every figure of a watched run. By default they fit a screen.")
def command(file: Path | None, style: str, full: bool) -> None:
    """Show a report that any command saved (without FILE, the latest one of `run`)."""
    from pipebench.host import machine
    from pipebench.results import report

    found = report.load(file or machine.cache_folder() / "reports" / "latest.json")
    click.echo(rendered(found, style, full), nl=False)
