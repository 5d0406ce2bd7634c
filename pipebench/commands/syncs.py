"""`pipebench syncs module:function`: where one iteration would make the host wait for a device."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import click

from pipebench.host.named import named
from pipebench.terminal import delivered, exported, formatted, paged, places, whole


@click.command(short_help="List the lines that make the host wait for the device")
@click.argument("function", metavar="MODULE:FUNCTION")
@click.option("--steps", type=click.IntRange(1), default=3, show_default=True, help="Examine this many calls.")
@click.option("--device", help="Device of its tensors.  [default: their own; without a device, as if on one]")
@click.option(
    "--fail-above", type=click.FloatRange(0), metavar="N", help="Exit with 3 if a step has more than N sync points."
)
@whole
@formatted
@exported
@paged
def command(
    function: str,
    steps: int,
    device: str | None,
    fail_above: float | None,
    style: str,
    export_json: Path | None,
    export_html: Path | None,
    force: bool,
) -> int:
    """List the lines of MODULE:FUNCTION that make the host wait for a device.

    The function is called without arguments; one call is one iteration. It works without a device: the tensors that
    the function makes are then treated as if on one. What the function prints goes to standard error.
    """
    export_json, export_html = places(force, export_json, export_html)
    with contextlib.redirect_stdout(sys.stderr):
        found = named(function, "without arguments")
        from pipebench.results.report import new
        from pipebench.syncpoints import examine

        report = examine.examine(found, iterations=steps, device=device, name=function)
    delivered(new(sync_points=report), style, export_json, export_html)
    return 3 if fail_above is not None and report.per_step > fail_above else 0
