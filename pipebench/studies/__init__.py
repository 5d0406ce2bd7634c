"""Worked examples from the literature: a slow baseline and its successive fixes, measured again here.

The author's figures stand beside ours. A study is one module of this package with a `STUDY`; adding one changes no
other file. Each step that is timed is first tried and compared with the row before it. Then all steps are measured in
turn in one interleaved run.
"""

from __future__ import annotations

import importlib
import pkgutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from pipebench.errors import SampleError, UsageError, did_you_mean
from pipebench.render.cells import spoken
from pipebench.results.studies import Author, StudyResult, StudyRow
from pipebench.stats import Speedup, compare, median_interval
from pipebench.task import Unavailable
from pipebench.units import printable

Progress = Callable[[int, int, str], None]
DISAGREES = "DISAGREES"  # in the agreement of a row that computes something else


@dataclass(frozen=True)
class Step:
    """One row: what it changes, what it gives up, and how to build the timed call (`Unavailable` if it cannot run).

    `agrees` raises `SampleError` if the output differs from that of an earlier row. `work` is the number of units
    (images, iterations) that one call does.
    """

    name: str
    what: str
    build: Callable[[], Callable[[], Any]]
    agrees: Callable[[Any, Any], None] | None = None
    author: Author = field(default_factory=Author)
    gives_up: str | None = None
    work: int = 1
    tried: Callable[[], Callable[[], Any]] | None = None  # makes another call to compare with the row before


@dataclass(frozen=True)
class Study:
    """A module's study. `run` gets the size, `default` or `full` (the author's own), and a progress callback."""

    name: str
    title: str
    source: str
    run: Callable[[str, Progress], StudyResult]


@dataclass(frozen=True)
class Rounds:
    """At most `most` rounds, each with one reading of every step. After `least` rounds, `budget_s` ends them."""

    most: int = 24
    least: int = 8
    budget_s: float = 60.0


def names() -> list[str]:
    """The names of all studies."""
    return sorted(found.name.replace("_", "-") for found in pkgutil.iter_modules(__path__))


def find(name: str) -> Study:
    if name not in names():
        near = did_you_mean(name, names())
        raise UsageError(f"there is no study {printable(name)!r}", f"{near}the studies are {', '.join(names())}")
    study: Study = importlib.import_module(f"pipebench.studies.{name.replace('-', '_')}").STUDY
    return study


@dataclass
class _Trial:
    """A step while it is being measured."""

    step: Step
    call: Callable[[], Any] | None = None
    readings: list[float] = field(default_factory=list)
    agreement: str = ""
    skipped: str | None = None

    @property
    def disagrees(self) -> bool:
        return DISAGREES in self.agreement


def timed(
    steps: Sequence[Step],
    rounds: Rounds,
    progress: Progress,
    now: Callable[[], float] = time.perf_counter,
    reading: Callable[[Callable[[], Any]], float] | None = None,
) -> list[StudyRow]:
    """Tries every step and compares it with the last one before it that runs here and agrees. Then times all in turn.

    So a row after one that computes something else has its speed-ups over the same work, too.

    If it is interrupted after two rounds, the rows have the readings until then. `reading` times one call; by default,
    it takes the wall time.
    """
    trials = [_Trial(step) for step in steps]
    _try(trials, progress)
    live = [(one, one.call) for one in trials if one.call is not None]
    deadline = now() + rounds.budget_s
    try:
        for turn in range(rounds.most):
            if turn >= rounds.least and now() > deadline:
                break
            shift = turn % max(1, len(live))
            for one, call in live[shift:] + live[:shift]:
                one.readings.append(_seconds(call, now) if reading is None else reading(call))
            progress(turn + 1, rounds.most, f"timing {len(live)} steps")
    except KeyboardInterrupt:
        whole = min((len(one.readings) for one, _ in live), default=0)
        if whole < 2:
            raise
        for one, _ in live:
            del one.readings[whole:]  # of the round that did not end
    return list(_rows(trials))


def _try(trials: Sequence[_Trial], progress: Progress) -> None:
    before: tuple[str, Any] | None = None
    for number, one in enumerate(trials):
        progress(number, len(trials), f"trying {one.step.name}")
        try:
            one.call = one.step.build()
            output = one.call()
            if one.step.tried is not None:
                output = one.step.tried()()
        except (Unavailable, ImportError) as missing:
            one.call, one.skipped = None, printable(getattr(missing, "reason", str(missing)))
            continue
        one.agreement = _agreement(one.step, output, before)
        if not one.disagrees:
            before = one.step.name, output


def _agreement(step: Step, output: Any, before: tuple[str, Any] | None) -> str:
    if before is None:
        return "is the baseline"
    if step.agrees is None:
        return "not compared"
    try:
        step.agrees(output, before[1])
    except SampleError as error:
        return f"{DISAGREES} with {before[0]}: {error.message}"
    return f"agrees with {before[0]}"


def _seconds(call: Callable[[], Any], now: Callable[[], float]) -> float:
    begin = now()
    call()
    return now() - begin


def _rows(trials: Sequence[_Trial]) -> Iterator[StudyRow]:
    known: dict[str, _Trial] = {}
    previous: _Trial | None = None
    for one in trials:
        step = one.step
        row = StudyRow(step.name, step.what, author=step.author, agreement=one.agreement, gives_up=step.gives_up)
        if not one.readings:
            yield replace(row, skipped=one.skipped or "not measured")
            continue
        first = next(iter(known.values()), None)
        theirs = known.get(step.author.over) if step.author.over else previous
        yield replace(
            row,
            seconds=median_interval([reading / step.work for reading in one.readings]),
            over_before=_over(one, previous),
            over_first=_over(one, first),
            over_authors=_over(one, theirs) if step.author.speedup else None,
        )
        if not one.disagrees:
            known[step.name] = previous = one


def _over(ours: _Trial, theirs: _Trial | None) -> Speedup | None:
    """The speed-up of one unit of `ours` over one of `theirs`; None for a row that disagrees."""
    if theirs is None or ours.disagrees:
        return None
    return compare(ours.readings, theirs.readings, scale=ours.step.work / theirs.step.work)


def reaches(rows: Sequence[StudyRow], name: str, times: float) -> str:
    """A sentence that says whether a row has a speed-up of `times` over the first row."""
    found = next((row.over_first for row in rows if row.name == name), None)
    if found is None:
        return f"{name}: a speed-up of {times:g}× over the baseline was not measured here"
    word = "reaches" if found.low >= times else "does not reach" if found.high < times else "may or may not reach"
    return f"{name} {word} {times:g}× of the baseline per image on one core: {spoken(found)}"


@dataclass(frozen=True)
class Counted:
    """A step whose figure is how often it makes the host wait.

    `build` makes a fresh training step. `outcome` calls a step once and returns what it computes. `says` is what the
    author says about the step.
    """

    name: str
    what: str
    says: str
    build: Callable[[], Callable[[], object]]
    outcome: Callable[[Callable[[], Any]], dict[str, float]]


def counted(steps: Sequence[Counted], progress: Progress, tolerance: float = 1e-4) -> list[StudyRow]:
    """The sync points of each step, with their source lines; with a CUDA device, also the time of each step."""
    from pipebench.syncpoints import examine

    rows: list[StudyRow] = []
    before: tuple[str, dict[str, float]] | None = None
    for number, step in enumerate(steps):
        progress(number, len(steps), f"looking for sync points of {step.name}")
        outcome = step.outcome(step.build())
        report = examine.examine(step.build(), name=step.name)
        lines = tuple(
            f"{point.path.rpartition('/')[2]}, line {point.line}: {point.per_step:g} a step, "
            + ", ".join(one.name for one in point.operations)
            for point in report.points
        )
        row = StudyRow(step.name, step.what, count=report.per_step, author=Author(step.says), notes=lines)
        rows.append(replace(row, agreement=_alike(outcome, before, tolerance)))
        if DISAGREES not in rows[-1].agreement:
            before = step.name, outcome
    return _on_device(steps, rows, progress)


def counting(
    study: Study,
    steps: Sequence[Any],
    sizes: dict[str, tuple[int, int]],
    outcome: Callable[[Callable[[], Any]], dict[str, float]],
    size: str,
    progress: Progress,
) -> StudyResult:
    """A study whose figure is the number of sync points in a step.

    Each of `steps` has a name, what it changes, what the author says and `build(size)`. `sizes` gives, for "small" and
    "full", the images per batch and the pixels per side.
    """
    import torch

    inner = {"default": "small", "full": "full"}[size]
    batch, edge = sizes[inner]
    asked = [Counted(one.name, one.what, one.author, partial(one.build, inner), outcome) for one in steps]
    rows = counted(asked, progress)
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else "as if its tensors were on a device"
    setting = f"batches of {batch} of {edge}×{edge}, {where}; sync points a step"
    return StudyResult(study.name, study.title, study.source, size, "step", setting, tuple(rows), (counts_found(rows),))


def _alike(ours: dict[str, float], before: tuple[str, dict[str, float]] | None, tolerance: float) -> str:
    if before is None:
        return "is the baseline"
    name, theirs = before
    apart = [key for key in theirs if abs(ours[key] - theirs[key]) > tolerance * max(1.0, abs(theirs[key]))]
    return f"{DISAGREES} with {name}: {', '.join(apart)}" if apart else f"agrees with {name}"


def _on_device(steps: Sequence[Counted], rows: list[StudyRow], progress: Progress) -> list[StudyRow]:
    """The rows. With a CUDA device, each also has the time of its step."""
    import torch

    if not torch.cuda.is_available():
        return rows
    from pipebench.host.clock import DeviceClock

    clock = DeviceClock()
    known = [
        Step(one.name, one.what, one.build, partial(_as_counted, row.agreement))
        for one, row in zip(steps, rows, strict=True)
    ]
    found = timed(known, Rounds(), progress, reading=clock.elapsed)
    return [
        replace(row, seconds=one.seconds, over_before=one.over_before, over_first=one.over_first)
        for row, one in zip(rows, found, strict=True)
    ]


def _as_counted(agreement: str, ours: object, theirs: object) -> None:
    """What is known already of a step whose calls return nothing to compare."""
    if DISAGREES in agreement:
        raise SampleError("disagrees", agreement)


def counts_found(rows: Sequence[StudyRow]) -> str:
    """A sentence that says whether the fixes remove every sync point."""
    first, last = rows[0].count, rows[-1].count
    holds = "holds" if last == 0 and first else "does not hold"
    return f"no sync point is left after the fixes: {holds} here, {first:g} a step become {last:g}"
