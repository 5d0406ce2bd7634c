"""Renders an A/B comparison as parts of a report. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipebench.render import layout, same_work
from pipebench.render.cells import Table
from pipebench.render.layout import Line, Part, Spare, Sparing
from pipebench.results.comparison import (
    ALARMS,
    BLIND,
    NO_RESULT,
    Change,
    Comparison,
    Judgement,
    Measured,
    Said,
    exceeding,
    unjudged,
    unseen,
)
from pipebench.units import counted, percent, printable, seconds_scale

MORE_ROUNDS = "raise --budget, compare fewer benchmarks, or join runs with --pool"


def too_few(changes: Sequence[Change], most_rounds: int | None = None) -> str | None:
    """Why some benchmarks could not be judged; None if all had enough rounds.

    `most_rounds` is the number of rounds at which the run was told to stop.
    """
    poor, needed = unjudged(changes)
    if not poor:
        return None
    remedy = MORE_ROUNDS
    if most_rounds is not None and most_rounds < needed:
        remedy = f"--rounds {most_rounds} stopped the run, so give --rounds {needed} or leave it out"
        if any(one.judgement and one.judgement.rounds < most_rounds for one in changes):
            remedy = f"give --rounds {needed} or leave it out, and raise --budget"
    return f"{counted(poor, 'benchmark')} had fewer than the {needed} rounds needed: {remedy}"


def too_wide(changes: Sequence[Change]) -> str | None:
    """Which benchmarks a gate cannot judge although they had enough rounds; None if there are none."""
    wide = [one.benchmark for one in unseen(changes)]
    missed = f"{BLIND:g} times the time that the limit allows would not be seen"
    return f"{missed} in {same_work.listed(wide)}: {MORE_ROUNDS}" if wide else None


def parts(found: Comparison) -> list[Part]:
    """The verdict, a table with a row for each benchmark, and the notes."""
    return layout.flat(sparing(found))


def sparing(found: Comparison) -> list[Sparing]:
    """The same parts. A short page does without what was measured how, then without the legend of the table."""
    compared = [one for one in found.changes if one.judgement and one.base_s and one.head_s]
    made: list[Sparing] = [Line(verdict(found), "bold")]
    made += [_table(compared, found.base, found.head, found.allow_changed)] if compared else []
    made.append(_inset(legend(found.changes, found.most_rounds), 3))
    wide = too_wide(found.changes) if found.fail_above is not None and found.gate == NO_RESULT else None
    said = [*notes(found.changes, found.most_rounds), *([f"The gate has no result: {wide}"] if wide else [])]
    made += [f"  {line}" for line in [*said, *same_work.footer(found)]]
    made.append(_inset([*map(_measured, found.sides), *_runs(found)], 2))
    return [*made, Spare(tuple(_said(found.said)), 1)]


def _inset(lines: Sequence[str], order: int) -> Spare:
    return Spare(tuple(f"  {line}" for line in lines), order)


def _measured(side: Measured) -> str:
    """What a side ran."""
    tree = f", tree {printable(side.tree[:8])}" if side.tree else ""
    version = f" (Python {printable(side.python_version)})" if side.python_version else ""
    roots = printable(", ".join(side.roots))
    return f"{printable(side.label)}{tree}: {roots}, run by {printable(side.python)}{version}"


def _runs(found: Comparison) -> Iterator[str]:
    """The load of the run, or the runs that were joined."""
    if found.load:
        yield f"load of the machine: {_load(found.load)}"
    for number, run in enumerate(found.runs, 1):
        host = printable(run.machine.host) if run.machine else "an unknown machine"
        load = f", load {_load(run.load)}" if run.load else ""
        when = printable(run.created) if run.created else "at an unknown time"
        yield f"run {number} of {len(found.runs)}: {when} on {host}{load}"
    if len({run.machine.host for run in found.runs if run.machine}) > 1:
        yield "the runs are of several machines with the same processor"


def _load(load: tuple[float, float]) -> str:
    return f"{load[0]:.1f} before, {load[1]:.1f} after"


def _said(said: Sequence[Said]) -> Iterator[Part]:
    """What the measured code wrote to standard error, once with a count."""
    if said:
        yield ""
        yield Line("The measured code wrote to standard error", "bold")
    for one in said:
        times = [
            f"{name} {counted(count, 'time')}" for name, count in (("base", one.base), ("head", one.head)) if count
        ]
        yield f"  {printable(one.text)} ({', '.join(times)})"


def _table(changes: Sequence[Change], base: str, head: str, allow_changed: bool) -> Table:
    times = [(one.base_s_per_sample, one.head_s_per_sample) for one in changes]
    scale = seconds_scale(time for pair in times for time in pair if time)
    rows = tuple(
        (
            printable(one.benchmark),
            *(scale.number(time) if time else "" for time in pair),
            *_judged(one, one.judgement, allow_changed),
            str(one.judgement.rounds),
        )
        for one, pair in zip(changes, times, strict=True)
        if one.judgement
    )
    headers = ("benchmark", f"base {scale.unit}", f"head {scale.unit}", "speed-up", "interval", "detectable", "rounds")
    title = f"{printable(head)} against {printable(base)}, times of one sample"
    return Table(title, headers, rows, frozenset(range(1, len(headers))), spare=(6, 5))


def _judged(change: Change, judgement: Judgement, allow_changed: bool) -> tuple[str, str, str]:
    """The cells of a judgement: the speed-up, its interval, and the smallest detectable change.

    The speed-up is `~` if no difference was detected. A changed output stands in its place, unless it is allowed. With
    too few rounds, none of the figures would mean anything.
    """
    if not judgement.enough:
        return "~", "too few rounds", ""
    found = judgement.head_over_base
    detectable = percent(found.smallest_change, 1)
    speedup = f"{found.speedup:.3f}×" if judgement.told else "~"
    if change.changed and change.outputs and not allow_changed:
        speedup = same_work.label(change.outputs)
    return speedup, f"{found.low:.3f}–{found.high:.3f}", detectable


def legend(changes: Sequence[Change], most_rounds: int | None = None) -> list[str]:
    """What the columns mean, and how sure the intervals are."""
    judged = [one.judgement for one in changes if one.judgement]
    if not judged:
        return []
    together = "The interval holds" if len(judged) == 1 else f"All {len(judged)} intervals hold together"
    sure = "" if too_few(changes, most_rounds) else f" {together} with a confidence of {percent(1 - ALARMS)}."
    return [
        f"speed-up: time of base / time of head; below 1 the head is slower; ~: no difference detected.{sure}",
        "detectable: the smallest change that so many rounds can detect.",
    ]


def notes(changes: Sequence[Change], most_rounds: int | None = None) -> list[str]:
    """The notes: whether there were too few rounds, and which benchmarks were not measured, with the reason."""
    few = too_few(changes, most_rounds)
    found = [few] if few else []
    for one in changes:
        name = printable(one.benchmark)
        found += [f"{name}: not measured, {printable(one.skipped)}"] if one.skipped else []
        found += [f"{name}: failed, {printable(one.failed)}"] if one.failed else []
        found += [f"{name}: {printable(note)}" for note in _samples(one)]
        found += [f"{name}: {note}" for note in (same_work.notes(one.outputs) if one.outputs else ())]
    said = [(note, one.benchmark) for one in changes for note in one.notes]
    for note in dict.fromkeys(note for note, _ in said):
        found.append(f"{same_work.listed([name for one, name in said if one == note])}: {printable(note)}")
    return found


def _samples(one: Change) -> list[str]:
    """What the reader must know about the samples of a call."""
    if one.judgement and not one.samples_per_call:
        return ["a call has no samples, so it has no time of one sample"]
    if one.head_samples_per_call:
        numbers = f"{one.samples_per_call} samples in the base and {one.head_samples_per_call} in the head"
        return [f"a call has {numbers}; the speed-up is that of a call"]
    return []


def verdict(found: Comparison) -> str:
    """One line: the benchmarks that fail the gate. If none fails, the benchmarks that became slower or faster.

    A benchmark whose output changed is named as such. It may be slower, but it is never called faster.
    """
    changes, limit = found.changes, found.fail_above
    what = f"{printable(found.head)} against {printable(found.base)}: "
    other = [] if found.allow_changed else same_work.changed(changes)
    parts = [f"changed output: {', '.join(other)}"] if other else []
    if limit is not None and (over := exceeding(changes, limit)):
        slow = f"more than {percent(limit, 1)} slower: " + ", ".join(printable(one.benchmark) for one in over)
        return what + "; ".join([slow, *parts])
    told = [(printable(one.benchmark), one.judgement) for one in changes if one.judgement and one.judgement.told]
    slower = [name for name, judgement in told if judgement.head_over_base.speedup < 1]
    faster = [name for name, judgement in told if judgement.head_over_base.speedup > 1 and name not in other]
    parts += [f"slower: {', '.join(slower)}"] if slower else []
    parts += [f"faster: {', '.join(faster)}"] if faster else []
    return what + ("; ".join(parts) or _nothing_told([one.judgement for one in changes if one.judgement]))


def _nothing_told(judged: Sequence[Judgement]) -> str:
    if not judged:
        return "nothing was measured"
    if any(not one.enough for one in judged):
        return "too few rounds to say whether anything changed"
    return f"no measurable difference in {counted(len(judged), 'benchmark')}"
