"""Says how often lines of the user's own code run, and which of them work on one element at a time. Pure.

From what `record/line_counter.py` counted in some samples, batches and iterations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Literal, NamedTuple

from pipebench.results.drilled import DrilledLine, DrilledRow, Runs
from pipebench.results.watched import StageResult
from pipebench.units import code_place, runs_often
from pipebench.watch.read.gather import Run
from pipebench.watch.read.known_arrays import NESTED, OF_LISTS
from pipebench.watch.record.lines import LoaderFound
from pipebench.watch.record.sample_calls import LineRuns

_MANY = 100  # runs
_SMALL_S = 30e-6  # of one: what takes longer may work on more than one element
_FILLS = 0.2  # of a row, in a Python loop: then a list that becomes an array there is what the loop fills
Per = Literal["sample", "batch", "iteration"]


class Place(NamedTuple):
    file: str
    line: int


def runs_of_lines(run: Run, loader: int) -> dict[Per, dict[Place, Runs]]:
    """How often each line ran in a sample, in a batch and in an iteration: the mean of those that were counted."""
    looks = [one for process in run.processes for one in process.of(LineRuns) if one.loader == loader]
    found: dict[Per, dict[Place, Runs]] = {"sample": {}, "batch": {}, "iteration": {}}
    parts: dict[tuple[Per, str], list[LineRuns]] = {}
    for one in looks:
        parts.setdefault((one.per, one.part), []).append(one)
    for (per, _), same in parts.items():
        counts: dict[Place, list[tuple[int, bool]]] = {}
        for one in same:
            for its in one.lines:
                counts.setdefault(Place(its.file, its.line), []).append((its.runs, one.whole))
        for place, seen in counts.items():
            before = found[per].get(place)
            times = round(fmean(runs for runs, _ in seen)) + (before.times if before else 0)
            least = not all(whole for _, whole in seen) or bool(before and before.least)
            found[per][place] = Runs(times, per, least)
    return found


def per_element(runs: Runs | None, took_s: float) -> bool:
    """Whether a line that took so many seconds of what it is counted per works on one element at a time."""
    return runs is not None and runs.times >= _MANY and took_s <= _SMALL_S * runs.times


def with_runs(rows: Sequence[DrilledRow], stages: Sequence[StageResult], run: Run) -> tuple[DrilledRow, ...]:
    """The rows, each line with how often it runs, and with what is written in place of work on single elements."""
    runs = {loader: runs_of_lines(run, loader) for loader in {row.loader for row in rows}}
    return tuple(_row(row, stages, run, runs[row.loader]) for row in rows)


def _row(
    row: DrilledRow, stages: Sequence[StageResult], run: Run, runs: Mapping[Per, Mapping[Place, Runs]]
) -> DrilledRow:
    own = (one for one in stages if (one.loader, one.kind, one.name) == (row.loader, row.kind, row.stage))
    sample_s = max((one.exclusive_s_per_sample for one in own), default=0.0)
    samples = max((one.batch_size or 1 for one in run.of_loader(LoaderFound, row.loader)), default=1)
    order: tuple[Per, Per] = ("batch", "sample") if row.kind == "collate" else ("sample", "batch")
    lines = []
    for line in row.lines:
        place = Place(line.file, line.line)
        found = next((runs[per][place] for per in order if place in runs[per]), None)
        took_s = line.share * sample_s * (samples if found is not None and found.per == "batch" else 1)
        line = replace(line, runs=found)
        if not line.title and line.line and per_element(found, took_s):
            line = replace(line, title=NESTED.title, how=NESTED.how)
        lines.append(line)
    return replace(row, lines=tuple(_with_its_loop(one, lines) for one in lines))


def _with_its_loop(line: DrilledLine, lines: Sequence[DrilledLine]) -> DrilledLine:
    """A line that makes an array of a list which a loop of its function fills: without the loop, there is none."""
    loop = [one for one in lines if one.function == line.function and one.title == NESTED.title and one.runs]
    if line.title not in OF_LISTS or sum(one.share for one in loop) < _FILLS:
        return line
    most = max(loop, key=lambda one: one.share)
    often = f" ({runs_often(most.runs.times, most.runs.per, most.runs.least)})" if most.runs else ""
    first = f"A Python loop at {code_place(most.file, most.line)}{often} fills its list."
    return replace(line, title=NESTED.title, how=(first, *NESTED.how[1:]))
