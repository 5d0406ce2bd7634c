"""A calibration as text: the verdict, a table for each run, and what lies outside the goals and why. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pipebench.results.calibration import GOAL_SAMPLE_S, GOAL_SLOWDOWN, GOAL_SPAN_S, Calibration, Row, Slowdown
from pipebench.units import percent, printable, seconds, seconds_scale

# what is known to add to the error of a figure; it is read where one lies outside the goal
KNOWN = {
    "wait": "what watch writes about an iteration is written while the next batch is waited for, in the first 256 "
    "iterations after each of them",
    "optimiser": "the row begins and ends at the optimiser's hooks; what torch runs around them is in other",
    "other": "the row also has what torch runs around the optimiser's hooks",
    "forward": "the row begins when the batch has been noted, and ends inside torch's own backward",
    "getitem": "the row also has what lies between stages: part of each wrapper of ours",
    "hand-off": "the feeder thread and its worker take turns with the interpreter's lock",
}
KNOWN_CPU = "code of a library that is cold after a sleep takes more CPU time than where it was measured apart"
SHARED = "more processes than cores: what a library takes around the planted amounts is stretched by an estimate"
BUSY = "the machine had other work to do"
_HEADERS = ("", "clock", "per", "planted", "shown", "error", "of iteration", "of row", "")


def render(found: Calibration) -> str:
    """The whole report of `pipebench calibrate`."""
    lines = [_verdict(found), found.foot + ".", ""]
    lines.append(
        f"On {printable(found.host)}, {found.at}, {found.cores:g} usable cores, in {found.took_s:.0f} s; load "
        f"{found.load[0]:.1f} before and {found.load[1]:.1f} after"
    )
    for run in dict.fromkeys((row.part, row.run) for row in found.rows):
        lines += _table(f"{run[0]}: {run[1]}", [row for row in found.rows if (row.part, row.run) == run])
    lines += ["", *_overhead(found), *_noise(found)]
    outside = [row for row in found.rows if not row.within]
    if outside:
        lines += ["", "Over the goal, and what is known to add to it:", *(_explained(row, found) for row in outside)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _verdict(found: Calibration) -> str:
    parts = [f"{found.within} of {len(found.rows)} figures are within the goal"]
    parts.append(f"a span costs {seconds(found.span_s)}, {_judged(found.span_s <= GOAL_SPAN_S)}")
    for one in found.slowdowns:
        share = f"{percent(one.of_goal, 2)} to a sample of {seconds(GOAL_SAMPLE_S)} with {one.spans} spans"
        parts.append(f"{one.batches}, {one.clock}: watch adds {share}, {_judged(one.within)}")
    return "; ".join(parts) + "."


def _judged(within: bool | None) -> str:
    if within is None:
        return "too noisy to judge"
    return "within the goal" if within else "over the goal"


def _table(title: str, rows: Sequence[Row]) -> list[str]:
    scale = seconds_scale([max(row.truth_s for row in rows)])
    cells = [
        (
            row.name,
            row.clock,
            row.per,
            scale.number(row.truth_s),
            scale.number(row.found_s),
            f"{row.error_s * 1e6:+,.1f} µs",
            f"{100 * row.error_share:+.2f} %",
            "" if row.row_share is None else f"{100 * row.row_share:+.1f} %",
            "" if row.within else "over the goal",
        )
        for row in rows
    ]
    widths = [max(len(line[column]) for line in (_HEADERS, *cells)) for column in range(len(_HEADERS))]
    lines = ["", f"{title} ({scale.unit})"]
    for line in (_HEADERS, *cells):
        left = "  ".join(cell.ljust(width) for cell, width in zip(line[:3], widths[:3], strict=True))
        right = "  ".join(cell.rjust(width) for cell, width in zip(line[3:8], widths[3:8], strict=True))
        lines.append(f"{left}  {right}  {line[8]}")
    return lines


def _overhead(found: Calibration) -> Iterable[str]:
    yield f"Overhead: a span costs {seconds(found.span_s)} (goal {seconds(GOAL_SPAN_S)})"
    for one in found.slowdowns:
        sample = f"{one.batches}, {one.clock}, {one.spans} spans in a sample of {seconds(one.sample_s)}"
        yield f"  {sample}: watch adds {_added(one)}; the spans alone {seconds(one.expected_s)}"
    yield f"  The goal is less than {percent(GOAL_SLOWDOWN)} of a sample of {seconds(GOAL_SAMPLE_S)}, for each"


def _added(one: Slowdown) -> str:
    bounds = f"{one.low_s * 1e6:.1f} to {one.high_s * 1e6:.1f} µs"
    if not one.told:
        return f"nothing that these readings can tell ({bounds})"
    return f"{seconds(one.added_s)} ({bounds})"


def _noise(found: Calibration) -> Iterable[str]:
    yield f"Noise floor, equal readings of {seconds(found.reading_s)} beside each other:"
    for one in found.noise:
        alarms = f"{one.alarms} of {one.groups} groups told a difference that is not there"
        yield f"  {one.pairs} pairs can tell a change of {percent(one.smallest_change, 1)}; {alarms}"


def _explained(row: Row, found: Calibration) -> str:
    known = [KNOWN_CPU] if row.clock == "cpu" else [KNOWN[row.name]] if row.name in KNOWN else []
    workers = row.run.split(" ")[0]
    if workers.isdigit() and int(workers) + 1 > found.cores:
        known.append(SHARED)
    if found.load[0] > found.cores:
        known.append(BUSY)
    error = f"{row.error_s * 1e6:+,.1f} µs a{'n iteration' if row.per == 'iteration' else ' sample'}"
    return f"  {row.run}, {row.name}, {row.clock}: {error}: {'; '.join(known) or 'nothing that is known'}"
