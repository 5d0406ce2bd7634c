"""Renders the whole report of one watched run, at the end of the run or from a saved file. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipebench.render import layout
from pipebench.render.layout import Part
from pipebench.render.watch import parts
from pipebench.results.watched import WatchResult
from pipebench.units import printable

if TYPE_CHECKING:
    from pipebench.results.report import Report

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
    """The report at the end of a run, as text. Its last line says what is known about the error of its figures."""
    return layout.text([*parts(result, full=full), *_foot(calibration, full)], width=width, colour=colour)


def saved(report: Report, full: bool) -> list[Part]:
    """The parts of a saved report: what the terminal showed at the end of the run, then the machine."""
    from pipebench.render import tables  # of all commands: the end of a watched run does without

    assert report.watched is not None
    known = printable(report.error_of_watch) if report.error_of_watch is not None else None
    return [*parts(report.watched, full=full), *_foot(known, full), "", *tables.heading(report)]


def _foot(calibration: str | None, full: bool) -> list[Part]:
    return ["", f"{calibration or NOT_CALIBRATED}.{'' if full else _MORE}"]
