"""Renders a calibration: the verdict, a table for each run, and the known causes of errors over the goals. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pipebench.render.cells import Table
from pipebench.render.layout import Line, Part, Spare, Sparing
from pipebench.results.calibration import (
    GOAL_SAMPLE_S,
    GOAL_SLOWDOWN,
    GOAL_SPAN_S,
    LARGE_SHARE,
    UNDER_LOAD,
    Calibration,
    PlantedFigure,
    Slowdown,
)
from pipebench.units import percent, printable, seconds, seconds_scale

# The known causes of an error, by the name of the figure. The report shows a cause if the figure is over its goal.
KNOWN = {
    "wait": "The row begins before torch asks for the batch and ends when it has been handed on.",
    "optimiser": "The row begins and ends at the optimiser's hooks; what torch runs around them counts as other.",
    "other": "The row includes what torch runs around the optimiser's hooks.",
    "forward": "The row ends inside torch's own backward.",
    "getitem": "The row includes the time between stages, which is partly that of our own wrappers.",
    "hand-off": "The feeder thread and its worker take turns with the interpreter's lock.",
}
KNOWN_CPU = "A library's code is cold after a sleep and then takes more CPU time than where it was measured alone."
KNOWN_UNDER_LOAD = (
    "Some code of watch lies between the script's own clock and the row. The core may have been taken away there."
)
SHARED = (
    "There are more processes than cores: the time of libraries around the planted amounts is stretched by an estimate."
)
BUSY = "The machine had other work."


def parts(found: Calibration, full: bool = True) -> list[Sparing]:
    """The verdict, then a table for each run; if not `full`, one table with the largest error of each."""
    return [
        Line(_verdict(found), "bold"),
        f"{foot(found)}.",
        *(_all(found) if full else _short(found)),
        "",
        _made(found),
    ]


def _short(found: Calibration) -> Iterable[Sparing]:
    runs = dict.fromkeys((row.part, row.run) for row in found.rows)
    worst = [max(_of(found, *one), key=lambda row: abs(row.error_share)) for one in runs]
    yield _table("The largest error of each run", [replace(one, name=f"{one.run}, {one.name}") for one in worst])
    yield Spare(("", *_overhead(found)), 2)
    yield Spare(("", *_noise(found)), 3)
    yield Spare(tuple(_outside(found)), 1)


def _of(found: Calibration, part: str, run: str) -> list[PlantedFigure]:
    return [row for row in found.rows if (row.part, row.run) == (part, run)]


def _all(found: Calibration) -> list[Part]:
    parts: list[Part] = []
    for part, run in dict.fromkeys((row.part, row.run) for row in found.rows):
        parts.append(_table(f"{part}: {run}" if part != run else part, _of(found, part, run)))
    return [*parts, "", *_overhead(found), "", *_noise(found), *_outside(found)]


def _outside(found: Calibration) -> list[Part]:
    outside = [row for row in found.rows if not row.within]
    title = ["", "Over the goal, and what is known to add to the error"]
    return [*title, *(_explained(row, found) for row in outside)] if outside else []


def _made(found: Calibration) -> str:
    load = f"load {found.load[0]:.1f} before and {found.load[1]:.1f} after"
    return (
        f"Measured on {printable(found.host)}, {printable(found.at)}, {found.cores:g} usable cores, in "
        f"{found.took_s:.0f} s; {load}."
    )


def foot(found: Calibration) -> str:
    """The line at the foot of every later report of `watch`."""
    said = [_within(found, part) for part in dict.fromkeys(row.part for row in found.rows)]
    said.append(f"a span costs {seconds(found.span_s)}")
    said.append(f"{found.within} of {len(found.rows)} figures are within the goal")
    return f"Calibrated here ({printable(found.at[:10])}, load {max(found.load):.1f}): " + "; ".join(said)


def _within(found: Calibration, part: str) -> str:
    """How large the errors of one tested part are."""
    sample_s, share = found.worst(part)
    sample = f"{seconds(sample_s)} a sample and " if sample_s else ""
    large = found.worst_large(part)
    own = f" (and, for each row above {percent(LARGE_SHARE, 0)} of one, {percent(large, 1)} of it)" if large else ""
    return f"{printable(part)} is within {sample}{percent(share, 1)} of an iteration{own}"


def _verdict(found: Calibration) -> str:
    parts = [f"{found.within} of {len(found.rows)} figures are within the goal"]
    parts.append(f"a span costs {seconds(found.span_s)}, {_judged(found.span_s <= GOAL_SPAN_S)}")
    for one in found.slowdowns:
        added = percent(one.of_goal, 2) if one.within is not None else _between(one)
        share = f"{added} to a sample of {seconds(GOAL_SAMPLE_S)} with {one.spans} spans"
        parts.append(f"{printable(one.batches)}, {printable(one.clock)}: watch adds {share}, {_judged(one.within)}")
    return "; ".join(parts) + "."


def _between(one: Slowdown) -> str:
    """The bounds of what is added, in parts of a sample of the length that the goal is about."""
    return f"between {percent(one.low_s / GOAL_SAMPLE_S, 1)} and {percent(one.high_s / GOAL_SAMPLE_S, 1)}"


def _judged(within: bool | None) -> str:
    if within is None:
        return "too noisy to judge"
    return "within the goal" if within else "over the goal"


def _table(title: str, rows: Sequence[PlantedFigure]) -> Table:
    scale = seconds_scale([max(row.truth_s for row in rows)])
    cells = tuple(
        (
            f"{printable(row.name)}, CPU" if row.clock == "cpu" else printable(row.name),
            printable(row.per),
            scale.number(row.truth_s),
            scale.number(row.found_s),
            f"{row.error_s * 1e6:+,.1f}",
            f"{100 * row.error_share:+.2f} %",
            "" if row.row_share is None else f"{100 * row.row_share:+.1f} %",
            "" if row.within else "over",
        )
        for row in rows
    )
    headers = ("figure", "per", "planted", "shown", "error µs", "of iteration", "of row", "goal")
    return Table(f"{printable(title)} ({scale.unit})", headers, cells, frozenset({2, 3, 4, 5, 6}), spare=(1,))


def _overhead(found: Calibration) -> Iterable[str]:
    yield f"Overhead: a span costs {seconds(found.span_s)} (goal {seconds(GOAL_SPAN_S)})."
    for one in found.slowdowns:
        what = f"{printable(one.batches)}, {printable(one.clock)} time"
        sample = f"{what}, {one.spans} spans in a sample of {seconds(one.sample_s)}"
        yield f"  {sample}: watch adds {_added(one)}; the spans alone take {seconds(one.expected_s)}."
    yield f"  The goal for each is less than {percent(GOAL_SLOWDOWN)} of a sample of {seconds(GOAL_SAMPLE_S)}."


def _added(one: Slowdown) -> str:
    bounds = f"{one.low_s * 1e6:.1f} to {one.high_s * 1e6:.1f} µs"
    return f"{seconds(one.added_s)} ({bounds})" if one.told else f"no measurable time ({bounds})"


def _noise(found: Calibration) -> Iterable[str]:
    if not found.noise:
        yield "Slow-downs and noise were not measured: the calibration was interrupted. It is not kept for this host."
        return
    yield f"Noise floor: readings of {seconds(found.reading_s)} of the same work, taken in turn."
    for one in found.noise:
        yield (
            f"  {one.pairs} pairs detect a change of {percent(one.smallest_change, 1)} or more. False alarms: "
            f"{one.alarms} of {one.groups} groups."
        )


def _known(row: PlantedFigure, found: Calibration) -> Iterable[str]:
    if row.clock == "cpu":
        yield KNOWN_CPU
    elif row.name in KNOWN:
        yield KNOWN[row.name]
    workers = row.run.split(" ")[0]
    if workers.isdigit() and int(workers) + 1 > found.cores:
        yield SHARED
    if found.load[0] > found.cores:
        yield BUSY


def _explained(row: PlantedFigure, found: Calibration) -> str:
    known = [KNOWN_UNDER_LOAD] if row.part == UNDER_LOAD else [*_known(row, found)]
    clock = ", CPU" if row.clock == "cpu" else ""
    error = f"{row.error_s * 1e6:+,.1f} µs a{'n iteration' if row.per == 'iteration' else ' sample'}"
    causes = " ".join(known) or "No cause is known."
    return f"  {printable(row.run)}, {printable(row.name)}{clock}: {error}. {causes}"
