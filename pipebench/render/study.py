"""Renders the results of a study as a table of strings with its findings."""

from __future__ import annotations

import math
from collections.abc import Iterable

from pipebench.render.cells import Table, gain, spoken
from pipebench.results.studies import StudyResult, StudyRow
from pipebench.units import Scale, printable, seconds_scale

_HOLDS = ("holds", "larger")


def heading(result: StudyResult) -> list[str]:
    """Three lines: the study, its source, and the setting in which it ran."""
    size = "" if result.size == "default" else f", {result.size} size"
    return [printable(one) for one in (f"{result.title} ({result.study}{size})", result.source, result.setting)]


def verdict(result: StudyResult) -> str:
    """How many of the author's figures hold here; where the author gives none, the step that changes most."""
    claims = [row for row in result.rows if row.author.speedup is not None]
    if claims:
        return _judged(claims)
    timed = [(row.over_before, row) for row in result.rows if row.over_before is not None]
    if timed:
        most, row = max(timed, key=lambda pair: abs(math.log(pair[0].speedup)))
        return f"The step that changes most is {printable(row.name)}: {gain(most)}."
    return counts_left(result) or printable(result.title)


def counts_left(result: StudyResult) -> str | None:
    """How many sync points are left after the fixes; None if the study does not count them."""
    counts = [row.count for row in result.rows if row.count is not None]
    if len(counts) < 2:
        return None
    left = f"{counts[-1]:g} of the {counts[0]:g}" if counts[-1] else "none of the"
    return f"After the fixes, {left} sync points of a {printable(result.unit)} {'are' if counts[-1] else 'is'} left."


def _judged(claims: list[StudyRow]) -> str:
    """How many of the author's figures hold here, and how many have no reading that could say so."""
    measured = [row for row in claims if row.over_authors is not None]
    hold = [row for row in measured if row.outcome in _HOLDS]
    if len(claims) == 1:
        found = "holds" if hold else "does not clearly hold" if measured else "was not measured"
        return f"The author's gain {found} here: {printable(claims[0].name)}."
    if not measured:
        return f"None of the author's {len(claims)} gains was measured here."
    said = f"Of {len(claims)} gains of the author, {len(hold) or 'none'} {'hold' if len(hold) > 1 else 'holds'} here"
    missing = len(claims) - len(measured)
    return f"{said}; {missing} {'was' if missing == 1 else 'were'} not measured." if missing else f"{said}."


def table(result: StudyResult) -> Table:
    """One row for each step: its figure, its speed-up over the row before, and the author's speed-up."""
    scale = seconds_scale([row.seconds.median for row in result.rows if row.seconds])
    timed, counted = _shown(result)
    authors = any(row.author.speedup for row in result.rows)
    rows = [
        (*_cells(row, before, scale, timed, counted), *([_authors(row)] if authors else []))
        for row, before in zip(result.rows, [None, *result.rows], strict=False)
    ]
    unit = printable(result.unit)
    headers = ["step"]
    headers += [f"{scale.unit}/{unit}"] if timed else []
    headers += [f"syncs/{unit}"] if counted else []
    headers += ["× row before" if timed else "change"]
    headers += ["author's ×"] if authors else []
    numeric = frozenset(range(1, len(headers)))
    return Table(printable(result.title), tuple(headers), tuple(rows), numeric, tuple(_notes(result)))


def _shown(result: StudyResult) -> tuple[bool, bool]:
    """Whether any row has times, and whether any row has a count."""
    return any(row.seconds for row in result.rows), any(row.count is not None for row in result.rows)


def _cells(row: StudyRow, before: StudyRow | None, scale: Scale, timed: bool, counted: bool) -> tuple[str, ...]:
    cells = [printable(row.name)]
    if timed:
        cells.append(scale.number(row.seconds.median) if row.seconds else "skipped" if row.skipped else "")
    if counted:
        cells.append(f"{row.count:g}" if row.count is not None else "")
    cells.append(_change(row, before))
    return tuple(cells)


def _authors(row: StudyRow) -> str:
    return f"{row.author.speedup:.2f}×" if row.author.speedup else ""


def _change(row: StudyRow, before: StudyRow | None) -> str:
    if row.over_before is not None:
        return gain(row.over_before)
    if row.count is not None and before is not None and before.count is not None:
        return f"{row.count - before.count:+g}"
    return ""


def _notes(result: StudyResult) -> Iterable[str]:
    for row in result.rows:
        yield f"{printable(row.name)}: " + "; ".join(printable(one) for one in _said(row) if one)
    yield from (f"→ {claim}" for row in result.rows if (claim := claimed(row)) is not None)
    yield from (f"→ {printable(one)}" for one in result.findings)


def _said(row: StudyRow) -> Iterable[str]:
    yield row.what
    yield row.agreement
    if row.gives_up:
        yield f"gives up {row.gives_up}"
    if row.skipped:
        yield f"skipped: {row.skipped}"
    if row.author.says:
        yield f"author: {row.author.says}"
    if row.author.over:
        yield f"the author's speed-up is over {row.author.over}"
    yield from row.notes


# The words for each outcome, if the author reports a gain, and if the author reports a loss.
_GAIN = {
    "holds": "holds here",
    "larger": "holds here, and the gain is larger",
    "smaller": "is a smaller gain here",
    "none": "does not hold here, there is no measurable gain",
    "open": "is neither confirmed nor ruled out here",
}
_LOSS = {
    **_GAIN,
    "larger": "is a larger loss here",
    "smaller": "is a smaller loss here",
    "none": "does not hold here, there is no measurable loss",
}


def claimed(row: StudyRow) -> str | None:
    """A sentence: whether the author's figure holds here. None if the author gives no figure."""
    if row.author.speedup is None:
        return None
    said = f"{printable(row.name)}: the author's {row.author.speedup:.2f}×"
    if (ours := row.over_authors) is None:
        return f"{said} was not measured here"
    words = {**(_LOSS if row.author.speedup < 1 else _GAIN)}
    words["opposite"] = f"does not hold here, the step is {'faster' if ours.speedup > 1 else 'slower'}"
    return f"{said} {words[row.outcome or 'open']}: {spoken(ours)}"
