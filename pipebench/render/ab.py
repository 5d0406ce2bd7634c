"""An A/B comparison as text, Markdown or JSON; pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pipebench.render import layout
from pipebench.render.cells import Table
from pipebench.render.layout import WIDTH, Part
from pipebench.results.comparison import ALARMS, Change, Judgement, too_few
from pipebench.units import counted, percent, printable, seconds_scale


def exceeding(changes: Sequence[Change], limit: float) -> list[Change]:
    """The benchmarks whose interval lies above `limit` altogether, 0.05 being 5 % more time."""
    return [one for one in changes if one.judgement and one.judgement.exceeds(limit)]


def text(
    changes: Sequence[Change],
    base: str,
    head: str,
    limit: float | None = None,
    *,
    width: int = WIDTH,
    colour: bool = False,
) -> str:
    """The verdict, a row for each benchmark, and what must be known besides."""
    return layout.text(_parts(changes, base, head, limit), width=width, colour=colour)


def markdown(changes: Sequence[Change], base: str, head: str, limit: float | None = None) -> str:
    """The same for a pull request."""
    return layout.markdown(_parts(changes, base, head, limit))


def _parts(changes: Sequence[Change], base: str, head: str, limit: float | None) -> list[Part]:
    compared = [one for one in changes if one.judgement and one.base_s and one.head_s]
    parts: list[Part] = [verdict(changes, base, head, limit)]
    parts += [_table(compared, base, head)] if compared else []
    return [*parts, *(f"  {note}" for note in notes(changes))]


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
    return Table(title, headers, rows, frozenset(range(1, len(headers))), spare=(5, 6))


def _judged(judgement: Judgement) -> tuple[str, str, str]:
    """The speed-up (`~` where there is none to tell), its interval, and the smallest change to be detected."""
    speedup, low, high = _speedup(judgement)
    detectable = percent(judgement.ratio.smallest_change, 1) if judgement.enough else "none"
    return f"{speedup:.3f}×" if judgement.told else "~", f"{low:.3f}–{high:.3f}", detectable


def _speedup(judgement: Judgement) -> tuple[float, float, float]:
    """How many times as fast as the base the head is, and the interval of that; below 1 it is slower."""
    return 1 / judgement.ratio.ratio, 1 / judgement.ratio.high, 1 / judgement.ratio.low


def notes(changes: Sequence[Change]) -> list[str]:
    """What a reader must know besides: how sure the intervals are, and what was not measured and why."""
    judged = [one.judgement for one in changes if one.judgement]
    found = []
    if judged:
        sure = percent(1 - ALARMS)
        together = "The interval holds" if len(judged) == 1 else f"All {len(judged)} intervals hold together"
        found += [
            "speed-up: base over head; below 1 the head is slower; ~ where no difference was detected. "
            f"{together} with a confidence of {sure}.",
            "detectable: the smallest change that so many rounds can detect (not shown on a narrow terminal).",
        ]
    few = too_few(changes)
    found += [few] if few else []
    for one in changes:
        name = printable(one.benchmark)
        found += [f"{name}: not measured, {printable(one.skipped)}"] if one.skipped else []
        found += [f"{name}: failed, {printable(one.failed)}"] if one.failed else []
        found += [f"{name}: {printable(note)}" for note in one.notes]
    return found


def verdict(changes: Sequence[Change], base: str, head: str, limit: float | None) -> str:
    """One line: what the gate says, or else which benchmarks became slower or faster."""
    what = f"{printable(head)} against {printable(base)}: "
    if limit is not None and (over := exceeding(changes, limit)):
        return what + f"more than {percent(limit, 1)} slower: " + ", ".join(printable(one.benchmark) for one in over)
    told = [(printable(one.benchmark), one.judgement) for one in changes if one.judgement and one.judgement.told]
    slower = [name for name, judgement in told if _speedup(judgement)[0] < 1]
    faster = [name for name, judgement in told if _speedup(judgement)[0] > 1]
    parts = [f"slower: {', '.join(slower)}"] if slower else []
    parts += [f"faster: {', '.join(faster)}"] if faster else []
    judged = sum(1 for one in changes if one.judgement)
    return what + ("; ".join(parts) or f"no measurable difference in {counted(judged, 'benchmark')}")


def as_json(changes: Sequence[Change], base: str, head: str) -> str:
    """Everything, with every reading of every round in seconds, base and head in turn."""
    found = [
        {
            "benchmark": one.benchmark,
            "ratio": one.judgement.ratio.ratio if one.judgement else None,
            "low": one.judgement.ratio.low if one.judgement else None,
            "high": one.judgement.ratio.high if one.judgement else None,
            "confidence": one.judgement.ratio.confidence if one.judgement else None,
            "told": one.judgement.told if one.judgement else None,
            "base_s": one.base_s,
            "head_s": one.head_s,
            "samples_per_call": one.samples_per_call,
            "calls_per_reading": one.calls_per_reading,
            "skipped": one.skipped,
            "failed": one.failed,
            "notes": list(one.notes),
            "rounds_s": [[list(pair) for pair in pairs] for pairs in one.rounds],
        }
        for one in changes
    ]
    return json.dumps({"base": base, "head": head, "changes": found}) + "\n"
