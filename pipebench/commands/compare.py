"""`pipebench compare BASE HEAD`: two saved reports of one command, held against each other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipebench.commands._percent import Percent
from pipebench.errors import PipebenchError
from pipebench.terminal import formatted, of_file, places, save_page, say, sensible
from pipebench.units import printable

if TYPE_CHECKING:
    from pipebench.results.before_after import BeforeAfter
    from pipebench.results.report import Report

FILE = click.Path(path_type=Path, dir_okay=False)
FAILED = 3


@click.command(short_help="Hold two saved reports against each other")
@click.argument("base", type=click.Path(path_type=Path), metavar="BASE.json")
@click.argument("head", type=click.Path(path_type=Path), metavar="HEAD.json")
@click.option(
    "--fail-above",
    type=Percent(),
    metavar="5%",
    help="Exit with 3 if a row is slower by more than that for certain: its whole interval.",
)
@click.option("--full", is_flag=True, help="Show every row. By default the report fits a screen.")
@formatted
@click.option("--export-json", type=FILE, metavar="FILE", help="Save the comparison here.")
@click.option("--html", "page", type=FILE, metavar="OUT", help="Write the comparison as a page to OUT, too.")
@click.option(
    "--force",
    is_flag=True,
    help="Compare reports of different machines, workloads or data, and let exports overwrite files.",
)
def command(
    base: Path,
    head: Path,
    fail_above: float | None,
    full: bool,
    style: str,
    export_json: Path | None,
    page: Path | None,
    force: bool,
) -> int:
    """Compare two saved reports of one command: BASE, the one before, and HEAD, the one after.

    What differs besides the figures comes first. Then each row that both have has its speed-up (above 1: the head is
    faster) with an interval that holds what differs between two runs of the same. `~`: it cannot be told.
    """
    export_json, page = places(force, export_json, page)
    from pipebench.results import report

    made = _compared(report.load(base), report.load(head), (base, head), force, fail_above)
    text = of_file(made, head, style, full)
    if export_json is not None:
        report.save(made, export_json)
    sensible(head, lambda: save_page(made, page))
    click.echo(text, nl=False)
    return _status(made.before_after) if made.before_after is not None else 0


def _compared(base: Report, head: Report, files: tuple[Path, Path], force: bool, fail_above: float | None) -> Report:
    """A report with the comparison. A loaded file may hold what no run gives; PipebenchError says so."""
    from pipebench.before_after.whole import compared
    from pipebench.results.report import new

    try:
        return new(before_after=compared(base, head, files, force=force, fail_above=fail_above))
    except (ArithmeticError, LookupError, TypeError, ValueError, AssertionError) as error:
        names = " and ".join(printable(one) for one in files)
        raise PipebenchError(
            f"{names} cannot be compared: the figures of one do not belong together ({type(error).__name__})",
            "name reports that pipebench wrote",
        ) from error


def _status(found: BeforeAfter) -> int:
    """3 if the gate failed, 1 if it has no result, else 0."""
    from pipebench.render.before_after import no_result
    from pipebench.results.comparison import GATE_FAILED, NO_RESULT

    if found.gate == GATE_FAILED:
        say(f"pipebench: slower: {', '.join(found.exceeding)}")
        return FAILED
    if found.gate == NO_RESULT:
        say(f"pipebench: the gate has no result: {no_result(found)}")
        return 1
    return 0
