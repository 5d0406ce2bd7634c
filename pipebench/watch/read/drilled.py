"""Says which lines of the user's own code a large row consists of, from looks at the stack. Pure, but for source text.

How far looks can be trusted was measured with planted shares: see `tools/drilling_bias.py` and docs/figures/watch.md.
"""

from __future__ import annotations

import linecache
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from pipebench.results.drilled import DrilledLine, DrilledRow
from pipebench.results.watched import Note, StageResult
from pipebench.stats import NORMAL
from pipebench.watch.launch.stacks import Look, Looks
from pipebench.watch.read.described import models_of
from pipebench.watch.read.gather import Run
from pipebench.watch.read.known_lines import Line, by_value, known
from pipebench.watch.read.known_table import AGAIN, AGAIN_MADE
from pipebench.watch.read.lines_around import Text, around
from pipebench.watch.read.opened_again import open_at, opened_again
from pipebench.watch.read.query_plan import as_planned
from pipebench.watch.record.lines import LoaderFound
from pipebench.watch.record.own_code import Place, owner, plain_name
from pipebench.watch.worker.stack_place import UNNAMED_SHARE, drilled

_FEWEST = 20  # with fewer looks, every interval is wider than 20 %
_SMALL = 0.05


def drilled_rows(
    run: Run, stages: Sequence[StageResult], looks: Looks, text: Text = linecache.getline
) -> tuple[DrilledRow, ...]:
    """The rows that took more than a fifth of worker time, with the lines that their looks found."""
    found, again = _by_stage(run, looks), opened_again(run, looks)
    return tuple(
        _row(run, one, seen, text, again.get(one.loader, frozenset()))
        for one in stages
        if one.worker_share > UNNAMED_SHARE
        if len(seen := found.get((one.loader, one.kind, one.name), [])) >= _FEWEST
    )


def _by_stage(run: Run, looks: Looks) -> dict[tuple[int, str, str], list[Look]]:
    """The looks at each row that is the user's own, by loader, kind and name."""
    found: dict[tuple[int, str, str], list[Look]] = {}
    processes = {(one.pid, one.started.at): one for one in run.processes}
    for who, seen in looks.of.items():
        process = processes.get((who.pid, who.began))
        if process is not None:
            for look in seen:
                if run.shown.begin <= look.at < run.shown.end:
                    stage = process.stage(look.stage)
                    if drilled(stage):
                        found.setdefault((who.loader, stage.kind, stage.name), []).append(look)
    return found


def _row(run: Run, stage: StageResult, looks: list[Look], text: Text, again: frozenset[str]) -> DrilledRow:
    counts = Counter(one.place for one in looks)
    unread = counts.pop(None, 0)
    places: Counter[Place] = Counter()
    for place, count in counts.items():  # a comprehension can have a frame of its own on the same line
        if place is not None:
            places[place._replace(function=plain_name(place.function))] += count
    files, held, waiting = _files_at(looks, again), _held_at(looks), _waiting_at(looks)
    row = Line("", "", "", stage.name, _known_as(run, stage), models=models_of(run, stage.loader))
    for one in run.of_loader(LoaderFound, stage.loader):
        row = row._replace(iterable=one.iterable, dataset=one.dataset)
    sample_s = stage.exclusive_s_per_sample

    def told(one: DrilledLine) -> DrilledLine:
        its, at = row._replace(took_s=one.share * sample_s), (one.file, one.line, one.calls)
        one, file = replace(one, at_lock=waiting.get(at)), files.get(at, "")
        return with_known(one, its, text, file, held.get((one.file, one.line), frozenset()))

    lines = sorted(map(told, _lines(places, len(looks), text)), key=lambda one: -one.looks)
    return DrilledRow(stage.loader, stage.name, stage.kind, stage.worker_share, len(looks), unread, tuple(lines))


def _known_as(run: Run, stage: StageResult) -> str:
    """The kind of a row for what is known of lines: a transform that is called for each sample is a function.

    Those of a stream, and of a dataset that makes whole batches, may get several samples at a time.
    """
    if stage.kind != "transform" or any(one.iterable for one in run.of_loader(LoaderFound, stage.loader)):
        return stage.kind
    names = (one.name for process in run.processes for one in process.stages.values())
    return stage.kind if any(one.endswith(".__getitems__") for one in names) else "function"


def _files_at(looks: Iterable[Look], again: frozenset[str]) -> dict[tuple[str, int, str], str]:
    """For each line, the file of those opened again and again that it has open."""
    at: dict[tuple[str, int, str], list[Look]] = {}
    for one in looks:
        if one.place is not None:
            at.setdefault((one.place.file, one.place.line, one.place.calls), []).append(one)
    return {place: open_at(seen, again) for place, seen in at.items()}


def _waiting_at(looks: Iterable[Look]) -> dict[tuple[str, int, str], float]:
    """For each line, the share of its looks in which the process waited for the lock of a file, where that is known."""
    seen, waiting = Counter[tuple[str, int, str]](), Counter[tuple[str, int, str]]()
    for one in looks:
        if one.place is not None and one.at_lock is not None:
            at = one.place.file, one.place.line, one.place.calls
            seen[at] += 1
            waiting[at] += one.at_lock
    return {at: waiting[at] / count for at, count in seen.items()}


def _held_at(looks: Iterable[Look]) -> dict[tuple[str, int], frozenset[str]]:
    """The files that are open at each line."""
    found: dict[tuple[str, int], frozenset[str]] = {}
    for one in looks:
        if one.place is not None and one.files:
            at = one.place.file, one.place.line
            found[at] = found.get(at, frozenset()) | one.files
    return found


def _lines(counts: dict[Place, int], looks: int, text: Text) -> Iterable[DrilledLine]:
    """A line for each place with a share that counts; the small ones of a function are put together.

    A line that calls several functions, each with a small share, has the one that most looks found.
    """
    rest: Counter[tuple[str, str]] = Counter()
    for place, count in _with_small_calls(counts, looks).items():
        if count < _SMALL * looks:
            rest[place.file, place.function] += count
        else:
            shown = text(place.file, place.line).strip()[:200]
            low, high = interval(count, looks)
            where = (place.file, place.function, place.line, place.calls)
            yield DrilledLine(*where, shown, count, count / looks, low, high)
    for (file, function), count in rest.items():
        low, high = interval(count, looks)
        yield DrilledLine(file, function, 0, "", "", count, count / looks, low, high)


def _with_small_calls(counts: dict[Place, int], looks: int) -> dict[Place, int]:
    """The same, with the small places of one line as one."""
    found: Counter[Place] = Counter()
    most: dict[Place, Place] = {}
    for place, count in sorted(counts.items(), key=lambda one: -one[1]):
        small = count < _SMALL * looks
        found[most.setdefault(place._replace(calls=""), place) if small else place] += count
    return dict(found)


def with_known(
    line: DrilledLine, row: Line, text: Text, file: str = "", held: frozenset[str] = frozenset()
) -> DrilledLine:
    """The line with what is written in its place, if that is known. `row` is what is known of its row.

    `file` is one that it has open, and that is opened again and again ("": there is none). It has `held` open.
    """
    if not line.line or owner(line.file):
        return line
    row = row._replace(calls=line.calls, function=line.function, again=bool(file))
    its = around(line.file, line.line, text, row)
    found = known(its)
    found = None if found is None else as_planned(found, by_value(its), held)
    if found is None:
        return line
    return replace(line, title=found.title, how=found.how, reread=file if found in (AGAIN, AGAIN_MADE) else "")


def interval(count: int, looks: int) -> tuple[float, float]:
    """The interval of 95 % for a share that `count` of `looks` found.

    It is wider than that of chance by the largest error that was found beyond it when shares were planted.
    """
    low, high = wilson(count, looks)
    return max(0.0, low - BIAS), min(1.0, high + BIAS)


def wilson(count: int, looks: int) -> tuple[float, float]:
    """What chance alone leaves open of a share, with 95 % (Wilson, JASA 22 (1927), p. 209-212)."""
    share, z = count / looks, NORMAL
    middle = (share + z * z / (2 * looks)) / (1 + z * z / looks)
    half = z * math.sqrt(share * (1 - share) / looks + z * z / (4 * looks * looks)) / (1 + z * z / looks)
    return middle - half, middle + half


BIAS = 0.08
"""The largest error beyond the interval of the looks in `tools/drilling_bias.py`, as a share of the row.

It is that of a place that waits in many short pieces, on a machine without a free core. The most likely cause: a look
that has to wait for a core often gets the one that the worker gives up when it begins to wait.
"""


def drilling_notes(looks: Looks) -> Iterable[Note]:
    """Says why large rows could not be drilled into."""
    if looks.refused is not None:
        yield Note("not-drilled", {"problem": looks.refused})
