"""Renders a run of the lab: on one screen, or every table. Pure.

What disturbed the run is one line for the whole report, and what was not measured is one line for each reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipebench.render import gains, tables
from pipebench.render.cells import Table
from pipebench.render.layout import Line, Part, Spare, Sparing
from pipebench.results.measurement import NOISE, Measurement, Warning
from pipebench.results.report import Report
from pipebench.units import counted, listed, printable

UNLIKE = "Good samples that some variants do otherwise than the reference, or not at all"
_NAMED = 3  # rows that a line names; the others are counted


def parts(report: Report, full: bool) -> Iterator[Sparing]:
    """The verdict first. The short report has one table: the summary, or the variants of the only task."""
    yield from (Line(line, "bold") for line in tables.verdict(report, full).splitlines())
    yield from _heading(report, full)
    if (said := noise(report, full)) is not None:
        yield Line(said, hanging="  ")
    known = [one for one in tables.task_ids(report) if not _all_skipped(report, one)]
    summed_up = not full and len(known) > 1
    every = [one for one in (tables.all_tables(report) if full else _one_table(report, known)) if one.rows]
    yield from every
    if summed_up and any(row[1].endswith("*") for one in every for row in one.rows):
        yield "  *: others are not measurably slower."
    if summed_up:
        yield from (Line(f"  {one}", hanging="  ") for one in gains.not_the_fastest(report))
    left_out = [*not_measured(report), *(_rows_left_out(report) if summed_up else [])]
    if left_out:
        yield ""
        yield from (Line(line, hanging="  ") for line in left_out)
    yield from _bad(report, full)
    if not full:
        yield Spare((Line("--full shows every variant, the ceilings, the loader, what takes its images.", "dim"),), 1)


def _heading(report: Report, full: bool) -> Iterator[Sparing]:
    lines = [Line(line, "dim") for line in tables.heading(report)]
    yield from lines if full else [Spare(tuple(lines), 2)]
    yield from tables.partial(report)


def _one_table(report: Report, known: Sequence[str]) -> Iterator[Table]:
    """The variants of the only task, or the summary of several."""
    if len(known) == 1:
        yield tables.of_task(report, known[0])
    elif known:
        yield tables.summary(report, full=False)


def noise(report: Report, full: bool = True) -> str | None:
    """What disturbed the run, in one line for all timed rows: the worst case, and if `full` that of each kind.

    None if nothing did.
    """
    rows = [one.warnings for one in report.measurements if not one.skipped]
    rows += [one.warnings for one in report.ceilings if not one.skipped]
    rows += [one.warnings for one in report.loader or () if not one.skipped]
    rows += [report.training.warnings] if report.training else []
    found = [one for warnings in rows for one in warnings if one.code in NOISE]
    if not found:
        return None
    touched = sum(any(one.code in NOISE for one in warnings) for warnings in rows)
    worst = [_worst([one for one in found if one.code == code]) for code in dict.fromkeys(one.code for one in found)]
    worst = sorted(worst, key=lambda one: -one.severity)[: None if full else 1]
    said = "; ".join(f"{printable(one.problem)} ({printable(one.remedy)})" for one in worst)
    return f"Noise in {touched} of {counted(len(rows), 'row')}. At worst: {said}."


def _worst(found: list[Warning]) -> Warning:
    return max(found, key=lambda one: one.severity)


def not_measured(report: Report) -> Iterator[str]:
    """One line for each reason why whole tasks were skipped, such as "transfer: needs a CUDA device"."""
    reasons: dict[str, list[str]] = {}
    for task in tables.task_ids(report):
        rows = _rows(report, task)
        if all(one.skipped for one in rows):
            for reason in dict.fromkeys(one.skipped.reason for one in rows if one.skipped):
                reasons.setdefault(reason, []).append(task)
    for reason, tasks in reasons.items():
        yield f"{', '.join(map(printable, tasks))}: {printable(reason)}"


def _rows_left_out(report: Report) -> Iterator[str]:
    """How many rows of measured tasks failed, and how many were skipped, with their first reasons."""
    rows = [one for task in tables.task_ids(report) if not _all_skipped(report, task) for one in _rows(report, task)]
    for what, why in (
        ("failed", [(one, one.failed) for one in rows if one.failed]),
        ("skipped", [(one, one.skipped.reason) for one in rows if one.skipped]),
    ):
        if why:
            yield f"{counted(len(why), 'variant')} {what}: {_by_reason(why)}"


def _by_reason(found: list[tuple[Measurement, str]]) -> str:
    """Variants with the reason that they share: those of the most common reasons first."""
    names: dict[str, dict[str, None]] = {}
    for one, reason in found:
        names.setdefault(reason, {})[printable(one.variant)] = None
    common = sorted(names, key=lambda reason: -len(names[reason]))
    said = [f"{listed(list(names[reason]), most=_NAMED)} ({printable(reason)})" for reason in common[:_NAMED]]
    rest = len(common) - _NAMED
    return "; ".join(said) + (f"; {counted(rest, 'other reason')}" if rest > 0 else "")


def _bad(report: Report, full: bool) -> Iterator[Sparing]:
    bad = tables.bad_samples(report) if full else tables.bad_samples(report, most=_NAMED)
    if bad:
        broken = {one.sample for one in report.bad_samples if not one.reference_did}
        yield ""
        yield Line(f"Bad samples ({len(broken)})", "bold")
        yield from (f"  {line}" for line in bad)
    if unlike := tables.unlike_samples(report):
        made: tuple[Part, ...] = ("", Line(UNLIKE, "bold"), *(f"  {line}" for line in unlike))
        yield from made if full else [Spare(made, 3)]


def _rows(report: Report, task: str) -> list[Measurement]:
    return [one for one in report.measurements if one.task == task]


def _all_skipped(report: Report, task: str) -> bool:
    return all(one.skipped for one in _rows(report, task))
