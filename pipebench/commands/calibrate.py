"""`pipebench calibrate`: how far the instrument's own figures are from a known truth, on this machine."""

from __future__ import annotations

import itertools
from pathlib import Path

import click

from pipebench.commands._lab import need_lab
from pipebench.host.interrupts import INTERRUPTED, Interrupts
from pipebench.host.whole_files import check_writable
from pipebench.terminal import delivered, exported, formatted, paged, places, progress, say


@click.command(short_help="Measure the error of `pipebench watch` on this machine")
@click.option("--full", is_flag=True, help="Also test workers started by spawn and forkserver.")
@click.option(
    "--load", type=click.IntRange(min=0), metavar="N", help="Busy processes in the part under load (0: without it)."
)
@formatted
@exported
@paged
def command(
    full: bool, load: int | None, style: str, export_json: Path | None, export_html: Path | None, force: bool
) -> int:
    """Measure the error of `pipebench watch` here: it watches pipelines whose true times are known.

    Takes about three minutes on a quiet machine. In its last part it keeps the machine busy: two processes for each
    usable core, unless --load says otherwise. Figures over their goal are marked and explained; the exit status is
    still 0. Later reports of `watch` quote the result.
    """
    need_lab("calibrate")
    export_json, export_html = places(force, export_json, export_html)
    from pipebench.calibrate import whole
    from pipebench.calibrate.attribution import plans
    from pipebench.host.machine import calibration_file
    from pipebench.results.report import new

    check_writable(calibration_file())
    interrupts = click.get_current_context().ensure_object(Interrupts)
    try:
        with progress() as advance:
            told, chosen = itertools.count(), plans(full)
            total = whole.activities(chosen, load)
            found = whole.calibrate(chosen, lambda line: advance(next(told), total, line.strip()), load)
    except KeyboardInterrupt:
        say("pipebench: interrupted before anything was measured; nothing was saved")
        return INTERRUPTED
    delivered(new(calibration=found, partial=interrupts.came), style, export_json, export_html)
    return INTERRUPTED if interrupts.came else 0
