"""An A/B comparison as text or Markdown; pure."""

from __future__ import annotations

import io
from collections.abc import Sequence

from pipebench.results.comparison import ALARMS, Change, too_few
from pipebench.units import percent, printable, seconds_scale

HEADERS = ("benchmark", "base", "head", "slower by", "interval", "could tell", "rounds")


def exceeding(changes: Sequence[Change], limit: float) -> list[Change]:
    """The benchmarks whose interval lies above `limit` altogether, 0.05 being 5 %."""
    return [one for one in changes if one.judgement and one.judgement.exceeds(limit)]


def signed(fraction: float) -> str:
    return f"{100 * fraction:+.1f} %"


def rows(changes: Sequence[Change]) -> tuple[str, list[tuple[str, ...]]]:
    """The unit of the times, and one row of cells for each benchmark that was measured."""
    scale = seconds_scale(time for one in changes for time in (one.base_s, one.head_s) if time)
    made: list[tuple[str, ...]] = []
    for one in changes:
        if one.judgement is None or one.base_s is None or one.head_s is None:
            continue
        found = one.judgement.head_over_base
        change = signed(1 / found.speedup - 1) if one.judgement.told else "~"
        interval = f"{signed(1 / found.high - 1)} to {signed(1 / found.low - 1)}"
        tell = percent(found.smallest_change, 1) if one.judgement.enough else "nothing"
        times = scale.number(one.base_s), scale.number(one.head_s)
        made.append((printable(one.benchmark), *times, change, interval, tell, str(one.judgement.rounds)))
    return scale.unit, made


def notes(changes: Sequence[Change]) -> list[str]:
    """What a reader must know besides: how sure the intervals are, and what was not measured and why."""
    judged = [one.judgement for one in changes if one.judgement]
    found = []
    if judged:
        sure = percent(1 - ALARMS)
        found.append(
            f"Intervals hold for all {len(judged)} benchmarks together with {sure}; ~ means that no difference can be "
            "told, and 'could tell' is the smallest that these rounds could have."
        )
    few = too_few(changes)
    found += [few] if few else []
    for one in changes:
        found += [f"{printable(one.benchmark)}: n/a, {printable(one.skipped)}"] if one.skipped else []
        found += [f"{printable(one.benchmark)}: failed, {printable(one.failed)}"] if one.failed else []
        found += [f"{printable(one.benchmark)}: {printable(note)}" for note in one.notes]
    return found


def verdict(changes: Sequence[Change], base: str, head: str, limit: float | None) -> str:
    """One line: what the gate says, or else what can be told."""
    what = f"{head} against {base}: "
    if limit is not None and (over := exceeding(changes, limit)):
        return what + f"more than {percent(limit, 1)} slower: " + ", ".join(printable(one.benchmark) for one in over)
    told = [one for one in changes if one.judgement and one.judgement.told]
    slower = [printable(one.benchmark) for one in told if one.judgement and one.judgement.head_over_base.speedup < 1]
    faster = [printable(one.benchmark) for one in told if one.judgement and one.judgement.head_over_base.speedup > 1]
    parts = [f"slower: {', '.join(slower)}"] if slower else []
    parts += [f"faster: {', '.join(faster)}"] if faster else []
    return what + ("; ".join(parts) or "no difference can be told")


def text(changes: Sequence[Change], base: str, head: str, limit: float | None = None) -> str:
    """Aligned columns for a terminal."""
    unit, cells = rows(changes)
    head_row = (HEADERS[0], f"base {unit}", f"head {unit}", *HEADERS[3:])
    out = io.StringIO()
    out.write(verdict(changes, base, head, limit) + "\n")
    if cells:
        widths = [max(len(row[column]) for row in (head_row, *cells)) for column in range(len(head_row))]
        for row in (head_row, *cells):
            first = row[0].ljust(widths[0])
            out.write("  ".join([first, *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]))
            out.write("\n")
    out.writelines(f"{note}\n" for note in notes(changes))
    return out.getvalue()


def markdown(changes: Sequence[Change], base: str, head: str, limit: float | None = None) -> str:
    """A table for a pull request."""
    unit, cells = rows(changes)
    lines = [f"**{_inert(verdict(changes, base, head, limit))}**", ""]
    if cells:
        titles = (HEADERS[0], f"base {unit}", f"head {unit}", *HEADERS[3:])
        lines += [_row(titles), _row(("---", *["---:"] * (len(titles) - 1)), escape=False)]
        lines += [*(_row(row) for row in cells), ""]
    lines += [f"- {_inert(note)}" for note in notes(changes)]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str], escape: bool = True) -> str:
    return "| " + " | ".join(_inert(cell) if escape else cell for cell in cells) + " |"


def _inert(words: str) -> str:
    return "".join("\\" + char if char in "\\`*_{}[]<>#|~!" else char for char in words)
