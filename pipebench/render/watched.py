"""A saved report of one watched run, shown again as it was shown at its end, under the machine that it ran on."""

from __future__ import annotations

from pipebench.render import tables
from pipebench.render.watch import render
from pipebench.results.report import Report
from pipebench.results.watched import WatchResult
from pipebench.units import printable


def text(report: Report) -> str:
    """The machine, then the report as the person at the terminal saw it."""
    assert report.watched is not None
    calibration = printable(report.error_of_watch) if report.error_of_watch is not None else None
    return "\n".join([*tables.heading(report), "", whole(report.watched, calibration)])


def markdown(report: Report) -> str:
    """The same in a block that Markdown leaves alone; no line of it can end the block."""
    return f"````text\n{text(report).replace('````', '` ` ` `')}````\n"


NOT_CALIBRATED = "Not calibrated on this machine: pipebench calibrate measures the error of these figures"


def whole(result: WatchResult, calibration: str | None) -> str:
    """The report as text, with what is known of its error at its foot."""
    return f"{render(result)}{calibration or NOT_CALIBRATED}.\n"
