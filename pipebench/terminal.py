"""What commands share: the options for a report's format and file, and a report as text for standard output."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from pipebench.host.whole_files import check_writable, destination

if TYPE_CHECKING:
    from pipebench.results.report import Report

Command = TypeVar("Command", bound=Callable[..., object])
NARROWEST, USUAL = 80, 110  # columns: the least that tables are made for, and those of a file or a pipe


def formatted(command: Command) -> Command:
    """Adds `--format`, as `style`."""
    return click.option(
        "--format",
        "style",
        type=click.Choice(["table", "json", "markdown"]),
        default="table",
        show_default=True,
        help="Of what goes to standard output.",
    )(command)


def exported(command: Command) -> Command:
    """Adds `--export-json` and `--force`, as `export_json` and `force`."""
    file = click.Path(path_type=Path, dir_okay=False)
    saving = click.option("--export-json", type=file, metavar="FILE", help="Save the report here.")
    return saving(click.option("--force", is_flag=True, help="Let exports overwrite files.")(command))


def place(asked: Path | None, force: bool) -> Path | None:
    """Where an export goes. What cannot be written is refused now, before anything is measured."""
    if asked is None:
        return None
    found = destination(asked, force)
    check_writable(found)
    return found


def delivered(report: Report, style: str, export_json: Path | None) -> None:
    """Saves the report where that was asked for, and writes it to standard output."""
    if export_json is not None:
        from pipebench.results.report import save

        save(report, export_json)
    click.echo(rendered(report, style), nl=False)


def rendered(report: Report, style: str) -> str:
    """The report as JSON, as Markdown, or as tables of the terminal's width."""
    from pipebench.render import text
    from pipebench.results.report import encode

    if style == "json":
        return encode(report).decode()
    if style == "markdown":
        return text.markdown(report)
    terminal = sys.stdout is not None and sys.stdout.isatty()
    width = shutil.get_terminal_size((USUAL, 40)).columns if terminal else USUAL
    return text.table(report, width=max(NARROWEST, width), colour=terminal and not os.environ.get("NO_COLOR"))
