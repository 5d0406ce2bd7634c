"""Says how often lines of the user's own code run, and which of them work on one element at a time. Pure.

From what `record/line_counter.py` counted in some samples, batches and iterations.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Literal, NamedTuple

from pipebench.results.drilled import DrilledLine, DrilledRow, Runs, Sure
from pipebench.units import code_place
from pipebench.watch.read.gather import Run
from pipebench.watch.read.known_arrays import OF_LISTS
from pipebench.watch.read.known_elements import BY_COUNT, of_elements
from pipebench.watch.read.lines_around import Text, function_above
from pipebench.watch.record.lines import LoaderFound
from pipebench.watch.record.sample_calls import LineRuns

_MANY = 100  # runs
_FEW_LOOKS = 2  # one look does not tell whether each sample has as many
_OF_SAMPLE = 8  # runs for each sample of a batch: fewer may be one for each sample
_SMALL_S, _TINY_S = 40e-6, 8e-6  # of one: what takes longer may work on many elements, or be all of a sample
_FILLS = 0.2  # of a row, in a Python loop: then a list that becomes an array there is what the loop fills
_NUMERIC = ("numpy", "torch", "builtins", "random", "math")
_OTHER = re.compile(  # weights, and the clock: a loop that waits works on no elements
    r"\.grad\b|parameters\(|\.data\b|state_dict\(|\bparam\w*\b|\btime\.|perf_counter|monotonic|\bsleep\("
)
_CONVERTED = re.compile(r"\b(?:\w*[Tt]ensor|array|asarray)\(\s*(\w+)\s*[,)]")
_OF_LOOPS = frozenset(one.title for one in BY_COUNT)
_PYTHON_S = 2.5e-6  # of one, with what it takes to count it: a call of torch takes longer
Per = Literal["sample", "batch", "iteration"]


class Place(NamedTuple):
    file: str
    line: int


class Counts(NamedTuple):
    """How often each line ran in a sample, in a batch and in an iteration, and the `samples` of a batch."""

    of: Mapping[Per, Mapping[Place, Runs]]
    samples: float

    def per_element(self, line: DrilledLine, per: Per, text: str) -> bool:
        """Whether a line works on one element at a time, and on what an operation on all of them may exist for."""
        runs = self.of[per].get(Place(line.file, line.line))
        if runs is None or runs.times < _MANY or runs.each_s > _SMALL_S:
            return False
        alike = per == "sample" or runs.times >= _OF_SAMPLE * self.samples or runs.each_s <= _TINY_S
        return alike and not _OTHER.search(text) and line.calls.partition(".")[0] in ("", *_NUMERIC)

    def only_python(self, file: str, line: int) -> bool:
        """Whether a line of an iteration runs so often that no operation of torch can be in it."""
        runs = self.of["iteration"].get(Place(file, line))
        return runs is not None and runs.times >= _MANY and runs.each_s <= _PYTHON_S


NO_COUNTS = Counts({"sample": {}, "batch": {}, "iteration": {}}, 1.0)


def counts_of(run: Run, loader: int) -> Counts:
    """What was counted of a loader: the mean of the samples, batches or iterations."""
    found: dict[Per, dict[Place, Runs]] = {"sample": {}, "batch": {}, "iteration": {}}
    parts: dict[tuple[Per, str], list[LineRuns]] = {}
    for one in (one for process in run.processes for one in process.of(LineRuns) if one.loader == loader):
        parts.setdefault((one.per, one.part), []).append(one)
    for (per, _), looks in parts.items():
        counts: dict[Place, list[tuple[int, LineRuns]]] = {}
        for one in looks:
            for its in one.lines:
                counts.setdefault(Place(its.file, its.line), []).append((its.runs, one))
        for place, seen in counts.items():
            times = sum(runs for runs, _ in seen) / len(looks)  # in the others, it did not run
            each = fmean(one.spent_ns / runs for runs, one in seen) / 1e9
            once = len(looks) < _FEW_LOOKS and times < _MANY
            differ = once or len(seen) < len(looks) or len({runs for runs, _ in seen}) > 1
            sure: Sure = "more than" if not all(one.whole for _, one in seen) else "about" if differ else ""
            runs = Runs(round(times), per, sure, each)
            found[per][place] = _with(found[per].get(place), runs)
    return Counts(found, _samples(run, loader))


def _with(before: Runs | None, runs: Runs) -> Runs:
    """The runs of a line with those in another part of the iteration or the batch."""
    if before is None:
        return runs
    sure = max(before.sure, runs.sure)  # in the order of the alphabet
    return Runs(before.times + runs.times, runs.per, sure, min(before.each_s, runs.each_s))


def _samples(run: Run, loader: int) -> float:
    """The samples of a batch, as they were made; else as the loader was made."""
    sums = [one for _, one in run.sums(loader)]
    batches = sum(one.batches for one in sums)
    if batches:
        return sum(one.samples for one in sums) / batches
    return max((one.batch_size or 1 for one in run.of_loader(LoaderFound, loader)), default=1)


def with_runs(rows: Sequence[DrilledRow], run: Run, text: Text = linecache.getline) -> tuple[DrilledRow, ...]:
    """The rows, each line with how often it runs, and with what is written in place of work on single elements."""
    counts = {loader: counts_of(run, loader) for loader in {row.loader for row in rows}}
    return tuple(_row(row, counts[row.loader], text) for row in rows)


def _row(row: DrilledRow, counts: Counts, text: Text) -> DrilledRow:
    order: tuple[Per, Per] = ("batch", "sample") if row.kind == "collate" else ("sample", "batch")
    lines = []
    for line in row.lines:
        per = next((one for one in order if Place(line.file, line.line) in counts.of[one]), order[0])
        line = replace(line, runs=counts.of[per].get(Place(line.file, line.line)))
        if not line.title and counts.per_element(line, per, line.text):
            known = of_elements(line, text)
            line = replace(line, title=known.title, how=known.how)
        lines.append(line)
    return replace(row, lines=tuple(_with_its_loop(one, lines, text) for one in lines))


def _with_its_loop(line: DrilledLine, lines: Sequence[DrilledLine], text: Text) -> DrilledLine:
    """A line that makes an array of a list which a loop of its function fills: without the loop, there is none."""
    converted = _CONVERTED.search(line.text)
    if line.title != OF_LISTS or converted is None:
        return line
    fills = re.compile(rf"\b{converted[1]}(?:\.(?:append|extend)\(|\s*\+=|\[[^\]]*\]\s*=(?!=))")
    above = function_above(line.file, line.line, text)
    loop = [one for one in lines if _is_above(one, line, len(above)) and one.title in _OF_LOOPS]
    if not any(map(fills.search, above)) or sum(one.share for one in loop) < _FILLS:
        return line
    most = max(loop, key=lambda one: one.share)
    often = f" ({most.runs.often})" if most.runs is not None else ""
    first = f"A Python loop at {code_place(most.file, most.line)}{often} fills its list."
    return replace(line, title=most.title, how=(first, *most.how))


def _is_above(one: DrilledLine, line: DrilledLine, lines: int) -> bool:
    return one.file == line.file and line.line - lines <= one.line < line.line
