"""Renders an A/B comparison as parts of a report. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from pipebench.render.cells import Table
from pipebench.render.layout import Line, Part
from pipebench.results.comparison import ALARMS, Change, Comparison, Judgement, Measured, unjudged
from pipebench.units import counted, percent, printable, seconds_scale


def exceeding(changes: Sequence[Change], limit: float) -> list[Change]:
    """The benchmarks whose whole interval is more than `limit` slower. A limit of 0.05 means 5 % more time."""
    return [one for one in changes if one.judgement and one.judgement.exceeds(limit)]


def too_few(changes: Sequence[Change]) -> str | None:
    """Why some benchmarks could not be judged; None if all had enough rounds."""
    poor, needed = unjudged(changes)
    if not poor:
        return None
    return f"{counted(poor, 'benchmark')} had fewer than the {needed} rounds needed: raise --budget, or name a --stage"


def parts(found: Comparison) -> list[Part]:
    """The verdict, a table with a row for each benchmark, and the notes."""
    compared = [one for one in found.changes if one.judgement and one.base_s and one.head_s]
    made: list[Part] = [Line(verdict(found), "bold")]
    made += [_table(compared, found.base, found.head)] if compared else []
    return [*made, *(f"  {note}" for note in [*notes(found.changes), *map(_measured, found.sides)])]


def _measured(side: Measured) -> str:
    """What a side ran."""
    tree = f", tree {side.tree[:8]}" if side.tree else ""
    return f"{printable(side.label)}{tree}: {printable(', '.join(side.roots))}, run by {printable(side.python)}"


def _table(changes: Sequence[Change], base: str, head: str) -> Table:
    scale = seconds_scale(time for one in changes for time in (one.base_s, one.head_s) if time)
    rows = tuple(
        (
            printable(one.benchmark),
            scale.number(one.base_s or 0.0),
            scale.number(one.head_s or 0.0),
            *_judged(one.judgement),
            str(one.judgement.rounds),
        )
        for one in changes
        if one.judgement
    )
    headers = ("benchmark", f"base {scale.unit}", f"head {scale.unit}", "speed-up", "interval", "detectable", "rounds")
    title = f"{printable(head)} against {printable(base)}"
    return Table(title, headers, rows, frozenset(range(1, len(headers))), spare=(6, 5))


def _judged(judgement: Judgement) -> tuple[str, str, str]:
    """The cells of a judgement: the speed-up, its interval, and the smallest detectable change.

    The speed-up is `~` if no difference was detected.
    """
    found = judgement.head_over_base
    detectable = percent(found.smallest_change, 1) if judgement.enough else "none"
    return f"{found.speedup:.3f}×" if judgement.told else "~", f"{found.low:.3f}–{found.high:.3f}", detectable


def notes(changes: Sequence[Change]) -> list[str]:
    """The notes: how sure the intervals are, and which benchmarks were not measured, with the reason."""
    judged = [one.judgement for one in changes if one.judgement]
    found = []
    few = too_few(changes)
    if judged:
        together = "The interval holds" if len(judged) == 1 else f"All {len(judged)} intervals hold together"
        sure = "" if few else f" {together} with a confidence of {percent(1 - ALARMS)}."
        found += [
            f"speed-up: time of base / time of head; below 1 the head is slower; ~: no difference detected.{sure}",
            "detectable: the smallest change that so many rounds can detect.",
        ]
    found += [few] if few else []
    for one in changes:
        name = printable(one.benchmark)
        found += [f"{name}: not measured, {printable(one.skipped)}"] if one.skipped else []
        found += [f"{name}: failed, {printable(one.failed)}"] if one.failed else []
        found += [f"{name}: {printable(note)}" for note in one.notes]
    return found


def verdict(found: Comparison) -> str:
    """One line: the benchmarks that fail the gate. If none fails, the benchmarks that became slower or faster."""
    changes, limit = found.changes, found.fail_above
    what = f"{printable(found.head)} against {printable(found.base)}: "
    if limit is not None and (over := exceeding(changes, limit)):
        return what + f"more than {percent(limit, 1)} slower: " + ", ".join(printable(one.benchmark) for one in over)
    told = [(printable(one.benchmark), one.judgement) for one in changes if one.judgement and one.judgement.told]
    slower = [name for name, judgement in told if judgement.head_over_base.speedup < 1]
    faster = [name for name, judgement in told if judgement.head_over_base.speedup > 1]
    parts = [f"slower: {', '.join(slower)}"] if slower else []
    parts += [f"faster: {', '.join(faster)}"] if faster else []
    judged = [one.judgement for one in changes if one.judgement]
    if not parts and any(not one.enough for one in judged):
        return what + "too few rounds to say whether anything changed"
    return what + ("; ".join(parts) or f"no measurable difference in {counted(len(judged), 'benchmark')}")
