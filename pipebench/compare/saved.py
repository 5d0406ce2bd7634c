"""Judges saved comparisons again: one with another limit, or the rounds of several runs together. Nothing is measured.

Runs are joined only if they measured the same: the same files on both sides (by the hash of the tree), the same
settings, data, Python and libraries, and the same model of processor. A change can cost one processor more than
another, so a speed-up that mixes two models would be true of neither. Another host with the same processor is joined,
and said: the machines of a hosted workflow differ from run to run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pipebench.compare.permutation import judge
from pipebench.errors import PipebenchError, UsageError
from pipebench.results.comparison import Change, Comparison, Judgement, Measured, Run, Said
from pipebench.results.report import Report, load
from pipebench.stats import Speedup
from pipebench.units import counted, percent, printable

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Saved:
    """A saved report of `ab`, with the name of its file and its comparison."""

    name: str
    report: Report
    comparison: Comparison


def loaded(path: Path) -> Saved:
    """Raises `PipebenchError` if the file is not a report of `ab` with all its rounds."""
    report = load(path)
    name = printable(path)
    if report.comparison is None:
        problem = f"{name} is a report of another command: it holds no comparison"
        raise PipebenchError(problem, "name a file that `pipebench ab --export-json` wrote")
    for one in report.comparison.changes:
        counts = (sum(run.rounds for run in one.runs), sum(one.servers or [len(one.rounds)]))
        whole = one.rounds and all(one.rounds) and set(counts) == {len(one.rounds)}
        if one.judgement and (not whole or min(one.servers, default=1) < 1):
            problem = f"{name} does not have all rounds of {printable(one.benchmark)}"
            raise PipebenchError(problem, "name a file that `pipebench ab --export-json` wrote, unchanged")
    return Saved(name, report, report.comparison)


def rejudged(saved: Saved, fail_above: float | None, progress: Progress) -> Report:
    """The report with its rounds judged again. `fail_above` is the new limit; None keeps that of the file."""
    found = saved.comparison
    limit = found.fail_above if fail_above is None else fail_above
    return replace(saved.report, comparison=replace(found, changes=_judged(found.changes, progress), fail_above=limit))


def pooled(runs: Sequence[Saved], fail_above: float | None, progress: Progress) -> Report:
    """The rounds of all runs as one comparison: the report of the first run, with the others joined to it.

    Raises UsageError, with every reason, if the runs cannot be joined.
    """
    first = runs[0]
    for other in runs[1:]:
        if reasons := _apart(first, other):
            problem = f"{first.name} and {other.name} cannot be joined: {'; '.join(reasons)}"
            raise UsageError(problem, "join runs of the same two commits, on one machine and with the same packages")
    names = dict.fromkeys(one.benchmark for run in runs for one in run.comparison.changes)
    joined = [_joined([_of(run, name) for run in runs]) for name in names]
    changes = tuple(_widened(one, [_of(run, one.benchmark) for run in runs]) for one in _judged(joined, progress))
    comparison = replace(
        first.comparison,
        changes=changes,
        fail_above=_limit(runs, fail_above),
        load=None,
        said=_said(runs),
        runs=tuple(one for run in runs for one in _runs(run)),
        most_rounds=None,
    )
    return replace(first.report, comparison=comparison, partial=any(run.report.partial for run in runs))


def _judged(changes: Sequence[Change], progress: Progress) -> tuple[Change, ...]:
    """The changes with new judgements, of the same family as when they were measured."""
    family = sum(one.live for one in changes)
    made = []
    for index, one in enumerate(changes):
        progress(index, len(changes), "judging the rounds")
        whole = one.live and one.rounds
        runs = [run.rounds for run in one.blocks]
        judged = judge(one.rounds, family, runs, one.servers) if whole else one.judgement
        made.append(replace(one, judgement=judged))
    return tuple(made)


def _of(run: Saved, name: str) -> Change | None:
    return next((one for one in run.comparison.changes if one.benchmark == name), None)


def _joined(found: Sequence[Change | None]) -> Change:
    """The rounds of one benchmark in all runs, without a judgement. Where it failed in a run, it failed."""
    there = [one for one in found if one is not None]
    measured = [one for one in there if one.live and one.rounds]
    failed = [one for one in there if one.failed is not None]
    if failed or not measured:
        return (failed or there)[0]
    notes = dict.fromkeys(note for one in there for note in one.notes)
    if len(measured) < len(found):
        notes[f"measured in {len(measured)} of {counted(len(found), 'run')}"] = None
    return replace(
        measured[0],
        rounds=tuple(pairs for one in measured for pairs in one.rounds),
        blocks=tuple(block for one in measured for block in one.runs),
        servers=tuple(count for one in measured for count in one.servers or [len(one.rounds)]),
        notes=tuple(notes),
        outputs=next((one.outputs for one in measured if one.changed), measured[0].outputs),
        without_waiting=all(one.without_waiting for one in measured),
    )


def _widened(joined: Change, alone: Sequence[Change | None]) -> Change:
    """The change with an interval over the intervals of all runs, if those of two runs exclude each other."""
    found = [one.judgement.head_over_base for one in alone if one and one.judgement]
    if not joined.judgement or len(found) < 2 or max(one.low for one in found) <= min(one.high for one in found):
        return joined
    over = joined.judgement.head_over_base
    ends = [*found, over]
    wide = Speedup(over.speedup, min(one.low for one in ends), max(one.high for one in ends), over.confidence)
    intervals = " and ".join(f"{one.low:.3f}–{one.high:.3f}" for one in found)
    note = f"the runs exclude each other ({intervals}), so the interval spans them all: something else differed"
    judgement = Judgement(wide, joined.judgement.rounds, joined.judgement.wanted)
    return replace(joined, judgement=judgement, notes=(*joined.notes, note))


def _apart(one: Saved, other: Saved) -> list[str]:
    """Why two runs cannot be joined."""
    if not (one.comparison.sides and other.comparison.sides):
        return ["a report of an earlier version does not say which files it measured"]
    found = _other_files(one, other)
    found += ["the settings differ"] if _settings(one) != _settings(other) else []
    found += ["the data set differs"] if one.comparison.data != other.comparison.data else []
    found += [f"{name}: {a} and {b}" for name, a, b in _other_machines(one, other)]
    twice = _rounds(one) & _rounds(other)
    return [*found, f"they have {counted(len(twice), 'round')} in common"] if twice else found


def _other_files(one: Saved, other: Saved) -> list[str]:
    found = []
    for (which, mine), (_, theirs) in zip(_sides(one), _sides(other), strict=False):
        if mine.tree is None or theirs.tree is None:
            found.append(f"the {which} is a working tree, whose files may have changed")
        elif mine.tree != theirs.tree:
            names = [f"{printable(side.label)}, tree {printable(side.tree or '')[:8]}," for side in (mine, theirs)]
            found.append(f"the {which} is {names[0]} in one and {names[1]} in the other")
    return found


def _settings(run: Saved) -> list[str]:
    """What the labels of a comparison say besides the names of the commits: environment and runner of each side."""
    labels = (run.comparison.base, run.comparison.head)
    return [label.removeprefix(side.label) for label, side in zip(labels, run.comparison.sides, strict=False)]


def _other_machines(one: Saved, other: Saved) -> list[tuple[str, str, str]]:
    """Processor, Python and libraries, where they differ."""
    facts = [_facts(run) for run in (one, other)]
    both = [(name, *(each.get(name, "none") for each in facts)) for name in dict.fromkeys([*facts[0], *facts[1]])]
    return [(name, printable(mine), printable(theirs)) for name, mine, theirs in both if mine != theirs]


def _facts(run: Saved) -> dict[str, str]:
    """What must be the same in runs that are joined; what the report does not know is left out."""
    versions = {f"Python of the {which}": side.python_version or "" for which, side in _sides(run)}
    machine = run.report.machine
    if machine is None:
        return versions
    return {**versions, "processor": machine.cpu, "cores": f"{machine.usable_cores:g}", **machine.libraries}


def _sides(run: Saved) -> list[tuple[str, Measured]]:
    return list(zip(("base", "head"), run.comparison.sides, strict=False))


def _rounds(run: Saved) -> set[tuple[str, object]]:
    return {(one.benchmark, pairs) for one in run.comparison.changes for pairs in one.rounds}


def _limit(runs: Sequence[Saved], fail_above: float | None) -> float | None:
    limits = {run.comparison.fail_above for run in runs}
    if fail_above is None and len(limits) > 1:
        said = " and ".join(sorted("none" if one is None else percent(one, 1) for one in limits))
        raise UsageError(f"the runs had different limits: {said}", "give one for all: --fail-above 5%")
    return limits.pop() if fail_above is None else fail_above


def _runs(saved: Saved) -> tuple[Run, ...]:
    return saved.comparison.runs or (Run(saved.report.created, saved.report.machine, saved.comparison.load),)


def _said(runs: Sequence[Saved]) -> tuple[Said, ...]:
    counts: dict[str, Said] = {}
    for one in (one for run in runs for one in run.comparison.said):
        before = counts.get(one.text, Said(one.text))
        counts[one.text] = Said(one.text, before.base + one.base, before.head + one.head)
    return tuple(counts.values())
