"""Runs every variant once on every sample before anything is timed, checks it and compares it with the reference."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from pipebench import stage
from pipebench.errors import BadSample, SampleError
from pipebench.host import machine
from pipebench.results.measurement import UNFIT, why_unfit
from pipebench.runner import Attempt, Prepared, Runner, RunnerDied, RunnerFailed, Runners
from pipebench.task import Task, Unavailable, Variant, Work, Workload
from pipebench.units import printable

T = TypeVar("T")
GONE = frozenset({"vanished", "unreadable", "not-regular"})  # what can happen to a file that was good
LEAST_FIT = 0.1  # of the good samples. A variant that is made for fewer is skipped


@dataclass(eq=False)
class Row:
    """One variant or ceiling while it is being measured."""

    variant: Variant
    runner: Runner | None = None  # the place where it is tried
    timed_in: Runner | None = None  # the place where its readings are taken; the same, if there is one process
    prepared: Prepared = field(default_factory=Prepared)
    bad: dict[str, BadSample] = field(default_factory=dict)
    attempted: int = 0
    compared: int = 0  # of those attempted, the samples that the model did
    work: Work | None = None
    calls: int = 1
    first_s: float | None = None
    out: frozenset[str] = frozenset()  # the samples of the others that it leaves out, because it is not made for them
    keys: tuple[str, ...] = ()  # the samples on which it is timed
    of: Row | None = None  # the row that it stands beside: it is the reference, timed on the samples of that row
    readings: list[float] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)  # of these, the number of each process
    deaths: int = 0  # processes that died while it ran
    codes: set[str] = field(default_factory=set)
    load: machine.Load = field(default_factory=machine.Load)
    failed: str | None = None

    @property
    def id(self) -> str:
        return self.variant.id

    @property
    def called(self) -> str:
        """The name under which its readings are asked for."""
        return self.id if self.of is None else f"{self.id} beside {self.of.id}"

    @property
    def usable(self) -> bool:
        return self.prepared.skip_code is None and self.failed is None

    @property
    def able(self) -> bool:
        """Whether it can be timed: it runs here and did at least one sample. A ceiling needs no samples."""
        return self.usable and (self.variant.ceiling is not None or self.attempted > len(self.bad))

    @property
    def unlike(self) -> list[BadSample]:
        """What the model did and this variant did not, or did otherwise."""
        return [one for one in self.bad.values() if one.reference_did]

    @property
    def unfit(self) -> dict[str, BadSample]:
        """The good samples that it is not made for. They are kept from no other row."""
        return {key: one for key, one in self.bad.items() if one.reference_did and one.kind in UNFIT}

    def renew(self) -> None:
        """Forgets all timing, because it cannot be compared with readings of other samples."""
        self.work, self.calls, self.first_s = None, 1, None
        self.readings, self.counts, self.codes, self.load = [], [], set(), machine.Load()

    def forget_process(self) -> None:
        """Forgets the readings of the last process."""
        del self.readings[len(self.readings) - self.counts.pop() :]


def prepare(row: Row, workload: Workload, runners: Runners) -> None:
    try:
        row.runner = runners.of(row.variant)
        row.prepared = row.runner.prepare(row.id, workload)
    except Unavailable as missing:
        row.prepared = Prepared(missing.code, missing.reason)
    except Exception as error:  # a variant that cannot be built fails alone; the run goes on
        fail(row, runners, error)


def fail(row: Row, runners: Runners, error: Exception) -> None:
    row.failed = f"{type(error).__name__}: {printable(str(error))[:300]}"
    if isinstance(error, RunnerDied):
        runners.drop(row.variant)


def stand_in(task: Task, reference: Row, workload: Workload, runners: Runners) -> list[Row]:
    """The first variant of a task that runs here, as a list; empty if none does. The reference is tried first."""
    for row in [reference, *(Row(variant) for variant in stage.variants(task.id)[1:])]:
        if row.runner is None:
            prepare(row, workload, runners)
        if row.usable:
            return [row]
    return []


def model_of(rows: Sequence[Row], reference: Row) -> Row:
    """The row that the others must agree with: the reference or, if it cannot run, the first that does the whole task.

    If there is no such row, the reference is returned, which is not usable then.
    """
    whole = (row for row in rows if row.usable and row.variant.does_all and row.variant.ceiling is None)
    return reference if reference.usable else next(whole, reference)


def groups_of(task: Task, workload: Workload, most: int | None) -> list[tuple[str, ...]]:
    """The groups to try, with at most `most` samples in all, but at least those of one call.

    They are spread over all groups, unless the task is timed on the first samples.
    """
    found = list(task.groups(workload))
    if most is None or not found:
        return found
    left = max(most, task.per_call(workload))
    if not task.from_the_start:
        found = spread(found, math.ceil(left / max(1, max(map(len, found)))))
    groups = []
    for group in found:
        if left > 0:
            groups.append(group[:left])
            left -= len(groups[-1])
    return groups


def spread(items: Sequence[T], count: int) -> list[T]:
    """`count` of the items, in order, spread evenly over all of them."""
    if len(items) <= count:
        return list(items)
    return [items[index * len(items) // count] for index in range(count)]


def try_all(
    task: Task,
    rows: Sequence[Row],
    model: Row,
    groups: list[tuple[str, ...]],
    workload: Workload,
    progress: Callable[[int, int, str], None],
) -> list[str]:
    """Tries each variant once on every group, checks it and compares it with the model.

    Returns the samples that all variants can do, apart from variants that can do none, and apart from the samples that
    a variant is not made for. A variant that is made for hardly any sample is skipped.
    """
    total = sum(len(group) for group in groups)
    tried = [row for row in rows if row.variant.ceiling is None and row.usable]
    limits = [row for row in rows if row.variant.ceiling and row.usable and row.variant.unfit]
    done = 0
    for group in groups:
        expected = _expected(model, group, workload)
        for row in tried:
            _try(task, row, group, workload, expected, row is model)
        for row in limits:
            _ask_if_unfit(task, row, group, workload)
        done += len(group)
        progress(done, total, f"{task.id}: trying {total} samples")
    for row in [*tried, *limits]:
        _skip_if_unfit(row)
    dead = set.union(set(), *(set(row.bad) - set(row.unfit) for row in tried if row.able))
    return [key for group in groups for key in group if key not in dead] if any(row.able for row in tried) else []


def _expected(model: Row, group: tuple[str, ...], workload: Workload) -> dict[tuple[str, ...], Attempt]:
    if not model.usable or model.runner is None:
        return {}
    return {one.keys: one for one in model.runner.attempt(model.id, workload, group)}


def _try(
    task: Task,
    row: Row,
    group: tuple[str, ...],
    workload: Workload,
    expected: dict[tuple[str, ...], Attempt],
    is_model: bool,
) -> None:
    assert row.runner is not None
    row.attempted += len(group)
    try:
        attempts = list(expected.values()) if is_model else row.runner.attempt(row.id, workload, group)
    except (RunnerDied, RunnerFailed) as error:
        row.failed = f"{type(error).__name__}: {printable(str(error))[:300]}"
        return
    for one in attempts:
        kind, message = one.kind, one.message
        beside = expected.get(one.keys)
        compared = beside is not None and beside.kind is None and not is_model
        row.compared += len(one.keys) if compared else 0
        if kind is None and beside is not None and compared:
            try:
                task.agree(one.output, beside.output, row.variant)
            except SampleError as error:
                kind, message = error.kind, error.message
        if kind is not None:
            _record(task, row, one, kind, message, reference_did=compared and kind not in GONE)


def _record(task: Task, row: Row, attempt: Attempt, kind: str, message: str, reference_did: bool = False) -> None:
    of, seconds = row.variant.name, attempt.seconds
    for key in attempt.keys:
        row.bad[key] = BadSample(task.stage, key, of, kind, message, seconds, task=task.id, reference_did=reference_did)


def _ask_if_unfit(task: Task, row: Row, group: tuple[str, ...], workload: Workload) -> None:
    """Asks a ceiling, which is not tried, whether it is made for a group."""
    assert row.variant.unfit is not None
    try:
        reasons = [reason for one in task.inputs(workload, group) if (reason := row.variant.unfit(one)) is not None]
    except Exception:  # the sample is bad, which the variants say
        return
    row.compared += len(group)
    if reasons:
        _record(task, row, Attempt(group), "unfit", reasons[0], reference_did=True)


def _skip_if_unfit(row: Row) -> None:
    """Skips a row that is made for hardly any of this data."""
    unfit = row.unfit
    if unfit and row.compared - len(unfit) < LEAST_FIT * row.compared:
        whom = f"{len(unfit)} of {row.compared} samples" if len(unfit) < row.compared else "this data"
        row.prepared = Prepared("unfit", f"not made for {whom}: {why_unfit(unfit.values())}")
        row.bad, row.attempted = {}, 0


def lost_since(
    task: Task, rows: Sequence[Row], model: Row, groups: Sequence[tuple[str, ...]], workload: Workload
) -> set[str]:
    """Those samples of `groups` whose files are gone; all were good when they were tried. Records them as bad.

    Only the model decides which ones are gone. So a variant that breaks for another reason takes no sample away from
    the others.
    """
    lost: set[str] = set()
    for group in groups:
        found = _expected(model, group, workload)
        gone = tuple(key for one in found.values() if one.kind in GONE for key in one.keys)
        for row in rows if gone else ():
            if row.able and row.variant.ceiling is None:
                attempts = [one for one in found.values() if one.kind] if row is model else _again(row, gone, workload)
                for one in attempts:
                    if one.kind is not None:
                        _record(task, row, one, one.kind, one.message)
        lost.update(gone)
    return lost


def _again(row: Row, keys: tuple[str, ...], workload: Workload) -> list[Attempt]:
    assert row.runner is not None
    try:
        return row.runner.attempt(row.id, workload, keys)
    except (RunnerDied, RunnerFailed):  # its failure is already recorded
        return []
