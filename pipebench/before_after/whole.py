"""Two reports become one result: are they of one kind and one machine, which rows do both have, and what changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pipebench.before_after import estimates, figures, watched
from pipebench.before_after.differing import differing
from pipebench.before_after.estimates import Estimate
from pipebench.before_after.figures import Figure
from pipebench.before_after.loaders import aligned
from pipebench.errors import PipebenchError, UsageError
from pipebench.results.before_after import BeforeAfter, Differing, Floor, Kind, Row, Side
from pipebench.results.report import Report
from pipebench.results.watched import Note, WatchResult
from pipebench.units import printable

OF_KIND: dict[str, Callable[[Report], Iterator[Figure]]] = {
    **figures.OF_KIND,
    "watch": watched.of_watch,
    "command": watched.of_command,
    "advise": watched.of_advise,
}
_WATCHED = ("watch", "command", "advise")
_Pairs = Sequence[tuple[Figure, Figure]]
_ABSENT_IS_0 = ("account", "a step")  # groups of figures
_AS_MANY = 0.1  # the last batch of a pass may be smaller
_SAID = {"functions": "pipebench.measure", "command": "watch -- COMMAND"}  # kinds that are no command's name


def compared(
    base: Report,
    head: Report,
    files: tuple[Path, Path],
    *,
    force: bool = False,
    fail_above: float | None = None,
) -> BeforeAfter:
    """What changed from `base` to `head`, which were loaded from `files`.

    Raises UsageError if the reports are of different kinds, of a kind that is not compared, or, without `force`, of
    different machines, workloads or data. Raises PipebenchError if no row is in both.
    """
    kind = _kind_of_both(base, head, files)
    appeared, vanished = _notes(base.watched, head.watched)
    if base.watched is not None and head.watched is not None:
        head = replace(head, watched=aligned(base.watched, head.watched))
    differs = differing(base, head)
    _check_alike(differs, force)
    ours, theirs = _by_name(OF_KIND[kind](base)), _by_name(OF_KIND[kind](head))
    _fill(ours, theirs)
    pairs = [(figure, theirs[name]) for name, figure in ours.items() if name in theirs]
    if not pairs:
        raise PipebenchError("the two reports have no row in common", "compare reports of the same command and options")
    floor = _floor(kind, base, head, pairs)
    lost = [one for name, one in ours.items() if name not in theirs and one.gated]
    failed = figures.failed(head)
    wait = base.watched and head.watched and (base.watched.wait_share, head.watched.wait_share)
    return BeforeAfter(
        kind=kind,
        base=_side(base, files[0]),
        head=_side(head, files[1]),
        rows=tuple(_rows(pairs, floor)),
        differing=differs,
        only_base=tuple(_named(one) for name, one in ours.items() if name not in theirs),
        lost=tuple(map(_named, lost)),
        failed=tuple(_named(one) for one in lost if (one.group, one.name) in failed),
        only_head=tuple(_named(one) for name, one in theirs.items() if name not in ours),
        floor=floor,
        forced=force and any(one.apart for one in differs),
        wait=(wait[0], wait[1]) if wait and wait[0] is not None and wait[1] is not None else None,
        wait_told=_is_told(watched.wait(base.watched), watched.wait(head.watched), floor, pairs),
        appeared=appeared,
        vanished=vanished,
        fail_above=fail_above,
    )


def kind_of(report: Report) -> str:
    """The command that made a report, or "functions" (`pipebench.measure`), "passport", "compare"; else "empty"."""
    parts = {
        "compare": report.before_after, "advise": report.advice, "command": report.command, "watch": report.watched,
        "syncs": report.sync_points, "ab": report.comparison, "study": report.studies, "calibrate": report.calibration,
        "plan": report.plan, "passport": report.passport, "run": report.workload, "functions": report.measurements,
        "check": report.check, "doctor": report.examination, "remote": report.remote, "pack": report.packing,
        "loaders": report.loaders, "engine": report.engine,
    }  # fmt: skip
    return next((name for name, part in parts.items() if part), "empty")


def _kind_of_both(base: Report, head: Report, files: tuple[Path, Path]) -> Kind:
    kinds = kind_of(base), kind_of(head)
    names = [_SAID.get(one, one) for one in kinds]
    if kinds[0] != kinds[1]:
        raise UsageError(
            f"{printable(files[0])} is a report of {names[0]}, and {printable(files[1])} one of {names[1]}",
            "compare two reports of one command",
        )
    if kinds[0] not in OF_KIND:
        can = ", ".join(_SAID.get(one, one) for one in OF_KIND)
        raise UsageError(f"reports of {names[0]} are not compared", f"reports of these are: {can}")
    return kinds[0]  # type: ignore[return-value]  # it is a key of OF_KIND


def _check_alike(differs: Sequence[Differing], force: bool) -> None:
    apart = [one for one in differs if one.apart]
    if apart and not force:
        said = "; ".join(f"{one.of}, {one.name}: {printable(one.base)} and {printable(one.head)}" for one in apart)
        raise UsageError(
            f"the two reports are not of the same machine, workload and data ({said})",
            "--force compares them all the same",
        )


def _by_name(found: Iterator[Figure]) -> dict[tuple[str, str, str], Figure]:
    """The figures by group, name and unit; of two with one name, the first."""
    made: dict[tuple[str, str, str], Figure] = {}
    for one in found:
        made.setdefault((one.group, one.name, one.unit), one)
    return made


def _fill(*sides: dict[tuple[str, str, str], Figure]) -> None:
    """An account without a row spent nothing there, and a step without an operation waits for none of them: 0."""
    for group in _ABSENT_IS_0:
        parts = [{name: one for name, one in side.items() if one.group == group} for side in sides]
        if all(parts):
            for side, others in zip(sides, reversed(parts), strict=True):
                side.update({name: replace(one, value=0.0) for name, one in others.items() if name not in side})


def _floor(kind: str, base: Report, head: Report, pairs: _Pairs) -> Floor | None:
    if kind in _WATCHED:
        return watched.floor(base, head)
    known = [
        (one.estimate, other.estimate)
        for one, other in pairs
        if one.estimate is not None and other.estimate is not None and not one.estimate.whole
    ]
    floors = estimates.of_earlier(base.between_runs, head.between_runs), estimates.of_rows(known)
    return estimates.narrowest(floors, len(known))


def _family(pairs: _Pairs) -> int:
    return sum(one.estimate is not None and other.estimate is not None for one, other in pairs)


def _is_told(base: Estimate | None, head: Estimate | None, floor: Floor | None, pairs: _Pairs) -> bool:
    return base is not None and head is not None and estimates.judged(base, head, floor, _family(pairs)).told


def _rows(pairs: _Pairs, floor: Floor | None) -> Iterator[Row]:
    family = _family(pairs)
    for one, other in pairs:
        judgement = None
        if one.estimate is not None and other.estimate is not None and _of_as_much(one, other):
            judgement = estimates.judged(one.estimate, other.estimate, floor, family, one.unit == "s")
        gated = one.gated and other.gated and one.workers == other.workers
        yield Row(one.group, one.name, one.unit, one.value, other.value, judgement, gated)


def _of_as_much(one: Figure, other: Figure) -> bool:
    """Whether both figures are of about as many samples."""
    return not one.samples or not other.samples or abs(one.samples / other.samples - 1) < _AS_MANY


def _named(one: Figure) -> str:
    return f"{one.group}: {one.name}"


def _side(report: Report, file: Path) -> Side:
    host = report.machine.host if report.machine is not None else None
    return Side(str(file), report.created, host, report.pipebench, report.partial)


def _notes(base: WatchResult | None, head: WatchResult | None) -> tuple[tuple[Note, ...], tuple[Note, ...]]:
    """The notes that only the head has, and those that only the base has, by their code."""
    if base is None or head is None:
        return (), ()
    ours, theirs = ({note.code: note for note in side.notes} for side in (base, head))
    return (
        tuple(note for code, note in theirs.items() if code not in ours),
        tuple(note for code, note in ours.items() if code not in theirs),
    )
