"""`pipebench show`: a saved report of any command, shown again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipebench.errors import PipebenchError, UsageError
from pipebench.terminal import exported, formatted, nameless, of_file, places, save_page, sensible
from pipebench.units import printable, quoted

if TYPE_CHECKING:
    from pipebench.results.report import Report


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
@click.option("--redact", is_flag=True, help="Put tokens in place of the names of samples, files, branches and hosts.")
@click.option(
    "--html", "page", type=click.Path(path_type=Path, dir_okay=False), metavar="OUT", help="Write it as a page to OUT."
)
@exported
@click.option("--full", is_flag=True, help="Show every figure. By default the report fits a screen.")
def command(
    file: Path | None,
    style: str,
    folder: Path | None,
    full: bool,
    redact: bool,
    page: Path | None,
    export_json: Path | None,
    force: bool,
) -> None:
    """Show a report that any command saved (without FILE, the latest one of `run` or `loaders`).

    With --html it becomes a page in a file, and nothing is printed.
    With --redact, a report can be passed on: a token stands for each name, the same wherever the name occurs in it.
    --export-json then saves such a report.
    """
    from pipebench.host import machine
    from pipebench.results import report

    if folder is not None and file is not None:
        raise UsageError("FILE is one report, and --merge takes a folder of them", "give one of the two")
    export_json, page = places(force, export_json, page)
    if file is not None and file.is_dir():
        merge = f"pipebench show --merge {quoted(str(file))}"
        raise UsageError(f"{printable(file)} is a folder", f"`{merge}` shows the ranks in its reports")
    source = folder or file or machine.cache_folder() / "reports" / "latest.json"
    if folder is None:
        found = report.load(source)
    else:
        from pipebench.watch.read.merged import merged

        found = merged(_reports_in(folder))
    if redact:
        found = nameless(found)
    if export_json is not None:
        report.save(found, export_json)
    if page is None:
        click.echo(of_file(found, source, style, full), nl=False)
    else:
        sensible(source, lambda: save_page(found, page))


def _reports_in(folder: Path) -> Iterator[Report]:
    """The reports of a folder. Raises PipebenchError if it has none, or if one of its `*.json` is no report."""
    from pipebench.results import report

    files = sorted(folder.glob("*.json"))
    if not files:
        remedy = "name the folder of `pipebench watch --out FOLDER -- torchrun train.py`"
        raise UsageError(f"{printable(folder)} has no reports (*.json)", remedy)
    for one in files:
        try:
            yield report.load(one)
        except PipebenchError as error:
            raise type(error)(error.problem, f"{error.remedy}, or move it out of this folder") from error
