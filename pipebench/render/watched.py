"""Renders the whole report of one watched run, at the end of the run or from a saved file. Pure."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pipebench.render import layout, programs, ranks, screen
from pipebench.render.layout import Part, Spare, Sparing
from pipebench.render.watch import of_rank, parts
from pipebench.results.programs import WatchedCommand
from pipebench.results.watched import WatchResult
from pipebench.units import printable

if TYPE_CHECKING:
    from pipebench.results.report import Report

NOT_CALIBRATED = "Not calibrated on this machine: `pipebench calibrate` measures the error of these figures"
_MORE = " --full shows every figure."


def whole(
    result: WatchResult,
    calibration: str | None,
    command: WatchedCommand | None = None,
    *,
    width: int = layout.WIDTH,
    colour: bool = False,
    full: bool = False,
    lacking: frozenset[str] = frozenset(),
) -> str:
    """The report at the end of a run, as text. Its last line says what is known about the error of its figures."""
    seen = command is not None or result.verdict.limit != "nothing-watched"
    parts = [*_all(result, command, full), *(foot(calibration, full) if seen else ())]
    made = screen.whole(parts, width) if full else screen.fitted(parts, width, "", screen.OF_RUN)
    return layout.text(made, width=width, colour=colour, lacking=lacking)


def _all(result: WatchResult, command: WatchedCommand | None, full: bool) -> list[Sparing]:
    """The programs of a command, then the figures of the one that is shown. `full` shows those of every program."""
    if command is None:
        return parts(result, full=full)
    made = programs.heading(command, result, full=full)
    if command.shown is not None:
        short = command.ranks is not None and not full
        move = ranks.next_of(command.ranks) if command.ranks is not None else ""
        if command.ranks is not None and command.ranks.late_in_few is not None:  # what a rule says is of all steps
            result = dataclasses.replace(result, next_move=None)
        made += of_rank(result, move) if short else parts(result, full=full, of_command=True)
    for one in command.programs if full else ():
        if one.watched is not None:
            made += ["", programs.title(one), *parts(one.watched, full=True, of_command=True)]
    return made


def saved(report: Report, full: bool) -> list[Sparing]:
    """The parts of a saved report: what the terminal showed at the end of the run, then the machine."""
    from pipebench.render import tables  # of all commands: the end of a watched run does without

    assert report.watched is not None
    known = printable(report.error_of_watch) if report.error_of_watch is not None else None
    machine = Spare(("", *tables.heading(report)))
    return [*_all(report.watched, report.command, full), *foot(known, full), machine, *tables.partial(report)]


def foot(calibration: str | None, full: bool) -> list[Part]:
    """What is known about the error of the figures."""
    return ["", f"{calibration or NOT_CALIBRATED}.{'' if full else _MORE}"]
