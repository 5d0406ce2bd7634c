"""What a page says of a report, in its order: chapters with a title, their text, and whether they are folded."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pipebench.render import advice, functions, lab, programs, ranks, tables, text, watch, watched
from pipebench.render.advice_notes import until_trials
from pipebench.render.cells import Table, when
from pipebench.render.layout import Line, Part, Section, Sparing, flat
from pipebench.render.pictures import SECTIONS
from pipebench.results.report import Report
from pipebench.units import printable

ORDER = (*SECTIONS, "programs", "notes", "method")
_TITLES = {
    "run": "Where the run went",
    "remedies": "What to change",
    "workers": "Inside the workers",
    "throughput": "Throughput",
    "timeline": "A few iterations",
    "distribution": "Iterations, samples and waits",
    "resources": "Hand-off and memory",
    "ranks": "The programs of the command",
    "stages": "In figures",
    "programs": "Every program",
    "notes": "Notes",
    "method": "How this was measured",
}
_OF_KIND = {
    "run": {"stages": "The stages, one by one", "throughput": "What the loader feeds"},
    "watch": {"remedies": "What to do next"},
    "ab": {"stages": "The benchmarks"},
    "study": {"stages": "The steps"},
    "syncs": {"stages": "The lines that wait"},
    "calibrate": {"stages": "Planted against shown"},
    "compare": {"run": "Where the two runs went", "stages": "Row by row"},
}
_OPEN = ("run", "remedies", "stages", "method")
_METHODS = {
    "watch": "The script ran unmodified. Its processes recorded their own times.",
    "advise": "Each remedy was tried inside the training loop of the script: windows of the changed loader took turns "
    "with windows of its own loader. Both shared one sampler.",
    "syncs": "Sync points are looked for on separate calls, which no timing includes.",
    "compare": "Two saved reports were held against each other. Nothing was measured here.",
}


@dataclass(frozen=True)
class Chapter:
    """A section of the page. `name` is one of ORDER."""

    name: str
    title: str
    parts: tuple[Part, ...]
    folded: bool


def kind(report: Report) -> str:
    """The command that made the report."""
    made = (
        ("compare", report.before_after),
        ("advise", report.advice), ("watch", report.watched), ("run", report.workload), ("ab", report.comparison),
        ("study", report.studies), ("syncs", report.sync_points), ("calibrate", report.calibration),
        ("plan", report.plan or report.passport), ("check", report.check), ("doctor", report.examination),
        ("remote", report.remote), ("loaders", report.loaders), ("run --engine", report.engine),
    )  # fmt: skip
    return next((name for name, part in made if part), "report")


def opening(report: Report) -> str:
    """What stands before the verdict in its first line: how many ranks there are ("": nothing)."""
    compared = report.command.ranks if report.command is not None and report.advice is None else None
    return ranks.opening(compared) if compared is not None else ""


def chapters(report: Report) -> list[Chapter]:
    """The chapters in the order of the page, the verdict first. A chapter without text has no parts."""
    found: dict[str, list[Part]] = {name: [] for name in ORDER}
    for name, parts in _sections(report):
        found["remedies" if name == "next" else name] += ["", *flat(parts)]
    titles = _TITLES | _OF_KIND.get(kind(report), {})
    titles["run"] = next((part.title for part in found["run"] if isinstance(part, Table)), titles["run"])
    opened = (*_OPEN, "throughput") if kind(report) == "run" else _OPEN
    return [
        Chapter(name, titles.get(name, ""), tuple(_without_title(parts, titles.get(name, ""))), name not in opened)
        for name, parts in found.items()
    ]


def _without_title(parts: Sequence[Part], title: str) -> Iterator[Part]:
    return (part for part in parts if part != title)


def _sections(report: Report) -> Iterator[Section]:
    if report.workload is not None:
        yield from _lab(report)
    elif report.measurements:
        yield "stages", [functions.table(report.measurements)]
    if report.advice is not None:
        yield from advice.sections(report.advice, report.watched, full=True)
    yield from _watched(report)
    yield from _divided(text.of_commands(dataclasses.replace(report, advice=None, watched=None), full=True))
    yield "method", [*_method(report)]


def _lab(report: Report) -> Iterator[Section]:
    yield "verdict", [Line(line, "bold" if place == 0 else "") for place, line in enumerate(_lines(report))]
    of_stages = len(tables.all_tables(report)) - len(tables.fed(report))
    *tasks, summary = tables.all_tables(report)[:of_stages]
    yield "stages", [summary, *tasks]
    yield "throughput", [*tables.fed(report)]
    yield "notes", [*filter(None, [lab.noise(report)]), *lab.not_measured(report)]
    if bad := tables.bad_samples(report):
        yield "notes", ["", "Bad samples", *(f"  {line}" for line in bad)]
    if unlike := tables.unlike_samples(report):
        yield "notes", ["", lab.UNLIKE, *(f"  {line}" for line in unlike)]


def _lines(report: Report) -> list[str]:
    return tables.verdict(report).splitlines()


def _watched(report: Report) -> Iterator[Section]:
    """The watched run, or the part of it before any trial: then the advice has the verdict and the next move."""
    found, command = report.watched, report.command
    if found is None:
        return
    if command is not None:
        yield from _programs(programs.heading(command, found, full=True))
    if command is None or command.shown is not None:
        shown = found if report.advice is None else until_trials(found)
        part = report.advice is not None
        for name, parts in watch.sections(shown, full=True, of_command=command is not None, part=part):
            if report.advice is None or name not in ("verdict", "next"):
                yield name, parts
    for one in command.programs if command is not None else ():
        if one.watched is not None:
            yield "programs", ["", programs.title(one), *watch.parts(one.watched, full=True, of_command=True)]


def _programs(parts: Sequence[Sparing]) -> Iterator[Section]:
    yield "verdict", [part for part in flat(parts) if not isinstance(part, Table)]
    yield "ranks", [part for part in flat(parts) if isinstance(part, Table)]


def _divided(parts: Iterable[Sparing]) -> Iterator[Section]:
    """The first prose is the verdict. What follows the first table, list or blank line is the evidence."""
    every = flat(parts)
    end = next((place for place, part in enumerate(every) if not _is_prose(part)), len(every))
    yield "verdict", [*every[:end]]
    yield "stages", [*every[end:]]


def _is_prose(part: Part) -> bool:
    if isinstance(part, Table):
        return False
    line = Line(part) if isinstance(part, str) else part
    return bool(line.text) and not line.text.startswith(" ") and not line.hanging


def _method(report: Report) -> Iterator[Part]:
    """Machine, versions, method, the error of the instrument, and the command that repeats it."""
    if report.before_after is None:
        yield from tables.heading(report)
    yield from tables.partial(report)
    if (method := _METHODS.get(kind(report))) is not None:
        yield method
    if report.watched is not None:
        known = printable(report.error_of_watch) if report.error_of_watch is not None else None
        yield from watched.foot(known, full=True)
    if report.created is not None:
        with_version = f" with pipebench {printable(report.pipebench)}" if report.pipebench else ""
        yield f"{'Measured' if report.before_after is None else 'Compared'} on {when(report.created)}{with_version}."
    if report.started_by:
        yield from ("Repeat it:", f"  {printable(report.started_by)}")
