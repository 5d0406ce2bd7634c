"""Says which functions did more than their samples needed. Pure.

From the samples whose calls were told, see `worker/repeated_calls.py`. A function gave the same if all its arguments
and all that it gave were the same in each of them, byte by byte. It gave too much if its result is larger than the
whole sample, and the text below its call cuts a part out of it and uses nothing else.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Literal, NamedTuple

from pipebench.results.drilled import DrilledLine, DrilledRow, NeedlessCall, What
from pipebench.results.watched import StageResult
from pipebench.watch.read.gather import Run
from pipebench.watch.read.known_lines import is_cut
from pipebench.watch.read.known_table import NEEDLESS
from pipebench.watch.read.lines_around import Text, around
from pipebench.watch.record.own_code import owner
from pipebench.watch.record.sample_calls import FunctionCalls, SampleCalls

_FEWEST = 3  # samples that were compared
_PART = 0.1  # of these samples
_AGAIN = 0.4  # of the calls
_LARGER = 3  # times as large as the sample
_TOLD = 0.5  # of what it takes: then the lines that looks found tell it
_MADE = "__init__"


class Needless(NamedTuple):
    """A function that did more than was needed: one of its calls, and what is told of it."""

    its: FunctionCalls
    told: NeedlessCall

    def holds(self, file: str, line: int) -> bool:
        """Whether a line is one of the function's own."""
        return file == self.its.file and self.its.first <= line <= self.its.last


def needless_calls(
    run: Run, loader: int, stages: Sequence[StageResult], text: Text = linecache.getline
) -> tuple[Needless, ...]:
    """What the calls in some samples of a loader showed, the longest first.

    `stages` are its rows: samples are not all of them.
    """
    part = 1 - sum(one.worker_share for one in stages if one.loader == loader and one.kind == "collate")
    return _told(run, loader, "sample", part, text)


def needless_in_forward(run: Run, loader: int, text: Text = linecache.getline) -> tuple[NeedlessCall, ...]:
    """The same of some iterations of a loop over a loader, from the batch to the backward. Shares are of that time."""
    return tuple(one.told for one in _told(run, loader, "iteration", 1.0, text))


def _told(run: Run, loader: int, per: Literal["sample", "iteration"], part: float, text: Text) -> tuple[Needless, ...]:
    lines = [one for process in run.processes for one in process.of(SampleCalls) if one.loader == loader]
    compared = [one for one in lines if one.functions and one.per == per]
    enough = len({one.sample for one in compared}) >= _FEWEST
    found = sorted(_needless(compared, text, part) if enough else (), key=lambda one: -one.told.share)
    return tuple(_outermost(found))


def _needless(compared: Sequence[SampleCalls], text: Text, part: float) -> Iterator[Needless]:
    by_function: dict[tuple[str, str, int], list[FunctionCalls]] = {}
    for one in (each for line in compared for each in line.functions):
        by_function.setdefault((one.file, one.name, one.first), []).append(one)
    whole = sum(one.spent_ns for one in compared)
    kept = fmean(one.sample_bytes for one in compared)
    for same in by_function.values():
        spent, larger = sum(one.spent_ns for one in same), fmean(one.result_bytes for one in same)
        what = _what(same, compared, text)
        of_its = {"before": sum(one.again_ns for one in same) / max(1, spent), "cut": 1 - kept / max(1.0, larger)}
        saves = of_its.get(what or "", 1.0)
        rough = any(one.rough for one in same)
        if what is not None and (rough or saves * spent >= _PART * whole):
            counts = len(same), sum(one.calls for one in same), sum(one.again for one in same)
            share = 0.0 if rough else part * saves * spent / whole
            place = _name(same[0]), same[0].at_file, same[0].at_line
            several = len({one.at_line for one in same}) > 1 or any(one.several for one in same)
            told = NeedlessCall(what, *place, several, *counts, larger, kept, saves, share, compared[0].loader)
            yield Needless(same[0], told)


def _what(same: Sequence[FunctionCalls], compared: Sequence[SampleCalls], text: Text) -> What | None:
    """What these calls of a function did that was not needed; None: nothing that is known, or that can be changed."""
    if any(owner(one.at_file) or not one.at_file for one in same):
        return None
    known = len(same) == len(compared) and all(one.given and one.gave for one in same)
    if known and len({(one.given, one.gave) for one in same}) == 1:
        made = same[0].name.rpartition(".")[2] == _MADE
        return "object" if made else "arguments" if same[0].takes else "each"
    if len(same) < _FEWEST:
        return None
    if sum(one.again for one in same) >= _AGAIN * sum(one.calls for one in same):
        return "before"
    small, large = min(one.sample_bytes for one in compared), min(one.result_bytes for one in same)
    alike = max(one.sample_bytes for one in compared) <= large / _LARGER
    places = {(one.at_file, one.at_line) for one in same}
    if not (small and alike) or len(places) > 1 or any(one.several for one in same):
        return None
    return "cut" if is_cut(around(same[0].at_file, same[0].at_line, text)) else None


def _name(one: FunctionCalls) -> str:
    """A function as its reader knows it: one of a library with the library's name."""
    return ".".join(part for part in (owner(one.file), one.name.removesuffix(f".{_MADE}")) if part)


def _outermost(found: Sequence[Needless]) -> Iterator[Needless]:
    """Those that no other one calls: what is called by what is needless is needless, too."""
    for nth, one in enumerate(found):
        around_it = (other for other in found[:nth] if other.told.what != "cut")
        if not any(other.holds(one.its.at_file, one.its.at_line) for other in around_it):
            yield one


def _at(line: DrilledLine, seen: Iterable[Needless]) -> NeedlessCall | None:
    """What is needless there: the user's function that the line is in, or the library's function that it calls."""
    for one in seen:
        its, library = one.its, owner(one.its.file)
        there = line.file == its.at_file and (its.several or line.line == its.at_line)
        if library and there and line.calls == f"{library}.{its.name}":
            return one.told
        if one.holds(line.file, line.line):
            return one.told
    return None


def with_needless(rows: Iterable[DrilledRow], calls: Mapping[int, Sequence[Needless]]) -> tuple[DrilledRow, ...]:
    """The rows, each line with what is written in place of what is needless. `calls` are those of each loader."""
    return tuple(
        replace(row, lines=tuple(_with_calls(one, calls.get(row.loader, ())) for one in row.lines)) for row in rows
    )


def _with_calls(line: DrilledLine, seen: Sequence[Needless]) -> DrilledLine:
    found = None if line.reread else _at(line, seen)
    return line if found is None else needless_line(found, line)


def needless_line(found: NeedlessCall, line: DrilledLine | None = None) -> DrilledLine:
    """A line with what is written in place of what is needless: by itself, where no look found it."""
    if line is None:
        line = DrilledLine(found.file, "", found.line, found.function, "", 0, found.share, found.share, found.share)
    instead = NEEDLESS[found.what]
    return replace(line, title=instead.title, how=instead.how, needless=found)


def needless_elsewhere(calls: Iterable[Sequence[Needless]], drilled: Sequence[DrilledRow]) -> Iterator[NeedlessCall]:
    """What is needless in functions of whose lines looks found none, or few: their time has other rows."""
    for told in (one.told for seen in calls for one in seen):
        lines = ((row.worker_share, line) for row in drilled for line in row.lines if line.needless == told)
        if sum(share * line.share * told.saves for share, line in lines) < _TOLD * told.share:
            yield told
