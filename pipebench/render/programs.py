"""Renders the programs of a watched command: which there were, and whose figures follow. Pure."""

from __future__ import annotations

import signal
from collections.abc import Iterable

from pipebench.host.children import named
from pipebench.render import ranks
from pipebench.render.cells import Table
from pipebench.render.layout import Line, Spare, Sparing, shortened
from pipebench.render.watch_notes import RAN_OUT
from pipebench.render.watch_verdict import not_recognised
from pipebench.results.programs import Program, WatchedCommand
from pipebench.results.watched import WatchResult
from pipebench.units import counted, percent, printable, seconds

_NAME = 30  # columns
_FEW = 8
_ENDED = {"ended": "", "failed": "failed", "cut": "cut short", "running": "still runs"}


def heading(found: WatchedCommand, main: WatchResult, *, full: bool = False) -> list[Sparing]:
    """What comes before the figures of the program that is shown."""
    if found.shown is None:
        said = not_recognised(main.verdict) if main.verdict.lacks else _nothing(found)
        return [Line(said, "bold"), *_unwatched(found)]
    shown, together = found.programs[found.shown], found.ranks
    made: list[Sparing] = []
    ended = [*ends(found.programs)]
    if together is not None and together.hang is None and any(one.ended == "failed" for one in found.programs):
        made, ended = [*(Line(one, "bold") for one in ended[:1]), *ended[1:]], []
    if together is not None:
        made += [f"Before the job was queued again: {ranks.verdict(one)}" for one in found.earlier]
        errors = {one.rank: one.error for one in found.programs if one.rank is not None and one.error}
        made += ranks.parts(together, full=full, errors=errors)
    if len(found.programs) > (1 if together is None else len(together.rows)):
        made.append(_table(found, main, full))
    most = ", which spent the most time in loops" if together is None else ""
    if main.bound is not None and main.bound.ranks:
        most = ", which waits longest for batches"
    below = f"Below: {_who(shown)}{most}."
    if len(found.programs) > 1:
        made.append(f"{below} --full shows every program.")
    else:
        made.append(f"{_who(shown)} of the command loads data.")
    return [*made, *ended, Spare(tuple(_unwatched(found)), 30), ""]


def title(one: Program) -> Line:
    """The line above the figures of one program."""
    return Line(f"{_who(one)}", "bold")


def _who(one: Program) -> str:
    which = f"process {one.pid}" if one.rank is None else f"rank {one.rank}, process {one.pid}"
    where = f" on {printable(one.host)}" if one.host else ""
    return f"{printable(one.name)} ({which}{where})"


def _nothing(found: WatchedCommand) -> str:
    if not found.others:
        if found.lost:
            return "Nothing was watched: the Python processes of the command that have torch could not be."
        if found.torchless:
            which = printable(", ".join(found.torchless))
            lacks = f"the command's Python ({which}) has no torch"
            return f"Nothing was watched: {lacks}. Is this the environment that trains?"
        return "Nothing was watched: no Python process of the command was seen to import torch."
    of = "the one Python process" if found.others == 1 else f"the {found.others} Python processes"
    said = (
        f"Nothing was watched: in {of} of the command that imported torch, no DataLoader was iterated, and no "
        "optimiser stepped in a loop without one."
    )
    if not found.running:
        return said
    who, them = "It" if found.others == 1 else f"{found.running} of them", "it" if found.running == 1 else "them"
    return f"{said} {who} still ran when the command ended: let the command wait for {them}."


def _unwatched(found: WatchedCommand) -> Iterable[str]:
    for commands, reason in (
        (found.hidden, "Python ran with -I, -E or -S there, so it ignores PYTHONPATH and start-up files."),
        (
            found.lost,
            "The start-up file of pipebench did not run there. Keep PIPEBENCH_WATCH, and the front of PYTHONPATH: "
            "`PYTHONPATH=$PYTHONPATH:DIR`. Python must be 3.11 or newer.",
        ),
    ):
        if commands:
            rest = len(commands) - 1
            more = f" and {counted(rest, 'more command')}" if rest else ""
            yield f"Not watched: {printable(commands[0])}{more}. {reason}"


def _table(found: WatchedCommand, main: WatchResult, full: bool) -> Table:
    few = found.programs if full else found.programs[:_FEW]
    rows = [_cells(one, one.watched or main) for one in few]
    left = len(found.programs) - len(few)
    return Table(
        f"The command ran {counted(len(found.programs), 'program')} that load data",
        ("program", "process", "wall", "iterations", "each", "waits", ""),
        tuple(rows),
        frozenset({1, 2, 3, 4, 5}),
        (f"{counted(left, 'more program')}: --full shows them.",) if left else (),
    )


def _cells(one: Program, its: WatchResult) -> tuple[str, ...]:
    each = sum(phase.s_per_iteration for phase in its.loop)
    return (
        shortened(printable(one.name), _NAME),
        str(one.pid),
        seconds(one.wall_s),
        f"{its.iterations:,}",
        seconds(each) if each else "",
        percent(its.wait_share) if its.wait_share is not None else "",
        _ENDED[one.ended],
    )


def ends(programs: Iterable[Program]) -> Iterable[str]:
    """A sentence for each program that did not reach its end: of each report, the one that ended first comes first."""
    firsts: dict[int, Program] = {}  # of the ranks of each report
    for one in sorted(programs, key=lambda one: (one.report, _left_s(one))):
        first = firsts.get(one.report)
        if one.ended == "failed":
            yield f"{_who(one)} failed{_afterwards(one, first)}: {printable(one.error)}."
        elif one.ended == "cut":
            why = f" {RAN_OUT}" if one.memory_ran_out and first is None else ""
            yield f"{_who(one)} {_cut(one, first)}: its records have no end.{why}"
        elif one.ended == "running":
            yield f"{_who(one)} still ran when the command ended: its records are of the time before."
        elif one.early:
            yield f"{_who(one)} ended without an error while other ranks were still in their training iterations."
        if first is None and one.rank is not None and (one.early or one.ended in ("failed", "cut")):
            firsts[one.report] = one


def _left_s(one: Program) -> float:
    return one.left_s if one.left_s is not None else one.began_s + one.wall_s


def _cut(one: Program, first: Program | None) -> str:
    """How a program ended whose records have no end. `first` is the rank that ended before it, if one did."""
    after, status = f"after {seconds(one.wall_s)}", one.exit_status
    if status is None:
        return f"was killed, or left by os._exit, {after}{_afterwards(one, first)}"
    if status > 0:
        return f"left by os._exit, or was replaced, with exit status {status} {after}{_afterwards(one, first)}"
    if -status == signal.SIGTERM and first is not None and _later_s(one, first) is not None:
        return f"was ended by SIGTERM{_afterwards(one, first)}"
    return f"was killed by {named(-status)} {after}{_afterwards(one, first)}"


def _afterwards(one: Program, first: Program | None) -> str:
    """That a rank ended after the first one, which took the others with it."""
    later_s = None if first is None else _later_s(one, first)
    return "" if first is None or later_s is None else f", {seconds(later_s)} after rank {first.rank} was gone"


def _later_s(one: Program, first: Program) -> float | None:
    """How long after the first one of its training it ended. None: not seen, or it is of no training of several."""
    if one.rank is None or one.ranks != first.ranks or one.left_s is None or first.left_s is None:
        return None
    return one.left_s - first.left_s
