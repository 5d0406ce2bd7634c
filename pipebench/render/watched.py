"""A saved report of one watched run, shown again as it was shown at its end, under the machine that it ran on."""

from __future__ import annotations

from pipebench.render import tables
from pipebench.report import Report
from pipebench.units import printable
from pipebench.watch.command import whole


def text(report: Report) -> str:
    """The machine, then the report as the person at the terminal saw it."""
    assert report.watch is not None
    calibration = printable(report.calibration) if report.calibration is not None else None
    return "\n".join([*tables.heading(report), "", whole(report.watch, calibration)])


def markdown(report: Report) -> str:
    """The same in a block that Markdown leaves alone; no line of it can end the block."""
    return f"````text\n{text(report).replace('````', '` ` ` `')}````\n"
