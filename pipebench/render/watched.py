"""A report of one watched run, for the terminal and as Markdown, at its end and from a file. Pure."""

from __future__ import annotations

from pipebench.render import layout, tables
from pipebench.render.layout import Part
from pipebench.render.watch import parts
from pipebench.results.report import Report
from pipebench.results.watched import WatchResult
from pipebench.units import printable

NOT_CALIBRATED = "Not calibrated on this machine: `pipebench calibrate` measures the error of these figures"
_MORE = " --full shows every figure."


def whole(
    result: WatchResult,
    calibration: str | None,
    *,
    width: int = layout.WIDTH,
    colour: bool = False,
    full: bool = False,
) -> str:
    """The report at the end of a run, with what is known of its error at its foot."""
    return layout.text([*parts(result, full=full), *_foot(calibration, full)], width=width, colour=colour)


def saved(report: Report, full: bool) -> list[Part]:
    """The report as the person at the terminal saw it, then the machine."""
    assert report.watched is not None
    known = printable(report.error_of_watch) if report.error_of_watch is not None else None
    return [*parts(report.watched, full=full), *_foot(known, full), "", *tables.heading(report)]


def _foot(calibration: str | None, full: bool) -> list[Part]:
    return ["", f"{calibration or NOT_CALIBRATED}.{'' if full else _MORE}"]
