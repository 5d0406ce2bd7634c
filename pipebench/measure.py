"""One task's variants: tried on every sample, then timed in turn on the samples that all of them can do."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from pipebench import machine, stage
from pipebench.errors import BadSample, SampleError
from pipebench.measurement import FEWEST_READINGS, Ceiling, Measurement, Result, Skipped, warnings_of
from pipebench.runner import Attempt, Prepared, Runner, RunnerDied, RunnerFailed, Runners
from pipebench.stage import Task, Unavailable, Variant, Work, Workload
from pipebench.stats import Ratio, compare, summarize
from pipebench.units import printable

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Plan:
    """How long to measure. `rounds` is how many readings each variant gets unless `budget_s` for the task runs out."""

    rounds: int = 24
    least_rounds: int = FEWEST_READINGS
    budget_s: float = 6.0
    reading_s: float = 0.010
    tries: int | None = None  # at most so many samples are tried before timing; None: every listed one

    @classmethod
    def quick(cls) -> Plan:
        return cls(rounds=6, budget_s=0.8, tries=512)

    @classmethod
    def rigorous(cls) -> Plan:
        return cls(rounds=60, least_rounds=12, budget_s=40.0, reading_s=0.020)


@dataclass
class _Row:
    """One variant or ceiling while it is being measured."""

    variant: Variant
    runner: Runner | None = None
    prepared: Prepared = field(default_factory=Prepared)
    bad: dict[str, BadSample] = field(default_factory=dict)
    attempted: int = 0
    work: Work | None = None
    calls: int = 1
    first_s: float | None = None
    readings: list[float] = field(default_factory=list)
    codes: set[str] = field(default_factory=set)
    load: machine.Load = field(default_factory=machine.Load)
    failed: str | None = None

    @property
    def id(self) -> str:
        return self.variant.id

    @property
    def usable(self) -> bool:
        return self.prepared.skip_code is None and self.failed is None

    @property
    def able(self) -> bool:
        """Whether it can be timed: it runs here and could do at least one sample."""
        return self.usable and (self.variant.ceiling is not None or self.attempted > len(self.bad))


def measure(
    task: Task,
    variants: Sequence[Variant],
    workload: Workload,
    *,
    runners: Runners,
    plan: Plan,
    ceilings: Sequence[Variant] = (),
    reference: Variant | None = None,
    progress: Progress = lambda done, total, what: None,
    now: Callable[[], float] = time.monotonic,
) -> Result:
    """Tries, then times, `variants` of `task` beside their `ceilings`. A row that fails never stops the others."""
    workload = task.adapt(workload)
    rows = [_Row(variant) for variant in [*variants, *ceilings]]
    for row in rows:
        _prepare(row, workload, runners)
    model = reference or stage.reference(task.id)
    known = next((row for row in rows if row.id == model.id), None)
    if known is None:  # not asked for, but the others must agree with it
        known = _Row(model)
        _prepare(known, workload, runners)
    groups = _groups(task, workload, plan)
    if not variants:  # ceilings alone are measured on what some variant can do
        rows = [*rows, *_stand_in(task, known, workload, runners)]
    good = _try_all(task, rows, known, groups, workload, progress)
    rows = rows[: len(variants) + len(ceilings)]
    count = task.per_call(workload)
    keys = tuple(good[:count]) if task.from_the_start else _spread(good, count)
    stopped = False
    try:
        if keys:
            _time_all(task, rows, keys, workload, runners, plan, progress, now)
    except KeyboardInterrupt:
        stopped = True
    bad = [record for row in rows for record in row.bad.values()]
    for runner in () if stopped else runners:
        with contextlib.suppress(RunnerDied):  # its rows have said so
            runner.release()
    bound = _bound(rows)
    result = Result(
        tuple(_measurement(row, known, bound, workload, len(good)) for row in rows if not row.variant.ceiling),
        tuple(_ceiling(row) for row in rows if row.variant.ceiling),
        tuple(bad),
    )
    if stopped:
        raise Interrupted(result)
    return result


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while a task was being timed; `result` holds the readings until then."""

    def __init__(self, result: Result) -> None:
        super().__init__()
        self.result = result


def _stand_in(task: Task, reference: _Row, workload: Workload, runners: Runners) -> list[_Row]:
    """The first variant of a task that runs here, its reference before all others."""
    for row in [reference, *(_Row(variant) for variant in stage.variants(task.id)[1:])]:
        if row.runner is None:
            _prepare(row, workload, runners)
        if row.usable:
            return [row]
    return []


def _prepare(row: _Row, workload: Workload, runners: Runners) -> None:
    try:
        row.runner = runners.of(row.variant)
        row.prepared = row.runner.prepare(row.id, workload)
    except Unavailable as missing:
        row.prepared = Prepared(missing.code, missing.reason)
    except Exception as error:  # a variant that cannot even be built is its own fault, not the run's
        _fail(row, runners, error)


def _fail(row: _Row, runners: Runners, error: Exception) -> None:
    row.failed = f"{type(error).__name__}: {printable(str(error))[:300]}"
    if isinstance(error, RunnerDied):
        runners.drop(row.variant)


def _groups(task: Task, workload: Workload, plan: Plan) -> list[tuple[str, ...]]:
    """The groups to try, cut to at most `plan.tries` samples."""
    groups, left = [], plan.tries if plan.tries is not None else math.inf
    for group in task.groups(workload):
        if left <= 0:
            break
        groups.append(group[: int(min(left, len(group)))])
        left -= len(groups[-1])
    return groups


def _try_all(
    task: Task, rows: list[_Row], reference: _Row, groups: list[tuple[str, ...]], workload: Workload, progress: Progress
) -> list[str]:
    """Each variant once on every group, checked and held against the reference; the samples that all of them can do."""
    total = sum(len(group) for group in groups)
    tried = [row for row in rows if row.variant.ceiling is None and row.usable]
    done = 0
    for group in groups:
        expected = _expected(reference, group, workload)
        for row in tried:
            _try(task, row, group, workload, expected, row is reference)
        done += len(group)
        progress(done, total, f"{task.id}: trying {total} samples")
    dead = set.union(set(), *(set(row.bad) for row in tried if row.able))
    return [key for group in groups for key in group if key not in dead] if any(row.able for row in tried) else []


def _expected(reference: _Row, group: tuple[str, ...], workload: Workload) -> dict[tuple[str, ...], Attempt]:
    if not reference.usable or reference.runner is None:
        return {}
    return {one.keys: one for one in reference.runner.attempt(reference.id, workload, group)}


def _try(
    task: Task,
    row: _Row,
    group: tuple[str, ...],
    workload: Workload,
    expected: dict[tuple[str, ...], Attempt],
    is_reference: bool,
) -> None:
    assert row.runner is not None
    row.attempted += len(group)
    try:
        attempts = list(expected.values()) if is_reference else row.runner.attempt(row.id, workload, group)
    except (RunnerDied, RunnerFailed) as error:
        row.failed = f"{type(error).__name__}: {printable(str(error))[:300]}"
        return
    for one in attempts:
        kind, message = one.kind, one.message
        beside = expected.get(one.keys)
        if kind is None and beside is not None and beside.kind is None and not is_reference:
            try:
                task.agree(one.output, beside.output, row.variant)
            except SampleError as error:
                kind, message = error.kind, error.message
        if kind is not None:
            for key in one.keys:
                row.bad[key] = BadSample(task.stage, key, row.variant.name, kind, message, one.seconds, task=task.id)


def _spread(keys: Sequence[str], count: int) -> tuple[str, ...]:
    """`count` keys spread evenly over all of them, in order."""
    if len(keys) <= count:
        return tuple(keys)
    return tuple(keys[index * len(keys) // count] for index in range(count))


def _time_all(
    task: Task,
    rows: list[_Row],
    keys: tuple[str, ...],
    workload: Workload,
    runners: Runners,
    plan: Plan,
    progress: Progress,
    now: Callable[[], float],
) -> None:
    """Arms every row, sizes its block, then takes one reading of each in turn, in an order that rotates."""
    for row in rows:
        if row.able:
            _guard(row, runners, lambda row=row: _arm(row, keys, workload, plan))  # type: ignore[misc]
    deadline, before = now() + plan.budget_s, runners.load()
    for turn in range(plan.rounds):
        if turn >= plan.least_rounds and now() > deadline:
            break
        live = [row for row in rows if row.able]
        for row in live[turn % len(live) :] + live[: turn % len(live)] if live else []:
            _guard(row, runners, lambda row=row: _read(row))  # type: ignore[misc]
        progress(turn + 1, plan.rounds, f"{task.id}: timing {len(live)} variants")
    load = runners.load() - before  # of all turns together: the counters' ticks of 10 ms are too coarse for one row
    for row in rows:
        row.load = load


def _guard(row: _Row, runners: Runners, action: Callable[[], None]) -> None:
    try:
        action()
    except Exception as error:
        _fail(row, runners, error)


def _arm(row: _Row, keys: tuple[str, ...], workload: Workload, plan: Plan) -> None:
    assert row.runner is not None
    row.work = row.runner.arm(row.id, workload, keys)
    row.first_s, _ = row.runner.reading(row.id, 1)
    if workload.cache == "cold" and row.variant.stage == "read":
        return  # a second call would find the files warm
    once, _ = row.runner.reading(row.id, 1)
    row.calls = max(1, math.ceil(plan.reading_s / max(once, 1e-9)))


def _read(row: _Row) -> None:
    assert row.runner is not None
    seconds, code = row.runner.reading(row.id, row.calls)
    row.readings.append(seconds)
    if code:
        row.codes.add(code)


def _bound(rows: Iterable[_Row]) -> _Row | None:
    """The first ceiling that could be measured."""
    found = (row for row in rows if row.variant.ceiling and row.able and row.readings)
    return next((row for row in found if "not-cold" not in row.codes), None)


def _relative(ours: _Row, theirs: _Row) -> Ratio:
    """Seconds per call of ours over theirs, from the rounds that both have."""
    both = min(len(ours.readings), len(theirs.readings))
    return compare(ours.readings[:both], theirs.readings[:both], scale=theirs.calls / ours.calls)


def _measurement(row: _Row, reference: _Row | None, bound: _Row | None, workload: Workload, common: int) -> Measurement:
    variant, prepared = row.variant, row.prepared
    timed = row.work is not None and bool(row.readings)
    samples = row.work.samples if row.work else 0
    return Measurement(
        stage=variant.stage,
        task=variant.task,
        variant=variant.name,
        workload=replace(workload, data=printable(workload.data)),
        readings_s=tuple(row.readings),
        first_reading_s=row.first_s,
        calls_per_reading=row.calls if timed else 0,
        work=row.work,
        summary=summarize(row.readings, row.calls, samples) if timed else None,
        ratio_to_reference=_relative(row, reference) if timed and reference and reference.readings else None,
        fraction_of_ceiling=_relative(bound, row).ratio if timed and bound and variant.does_all else None,
        samples_attempted=row.attempted,
        samples_failed=len(row.bad),
        library=prepared.library,
        gives_up=variant.gives_up,
        samples_common=common,
        load=row.load if timed else None,
        warnings=warnings_of(row.readings, row.load, row.codes),
        skipped=_skipped(prepared),
        failed=row.failed or _unable(row),
    )


def _unable(row: _Row) -> str | None:
    """Why a variant that ran did no sample at all."""
    if not row.attempted or row.attempted > len(row.bad):
        return None
    first = next(iter(row.bad.values()))
    return f"it could do none of {row.attempted} samples; the first: {first.kind}: {first.message}"


def _ceiling(row: _Row) -> Ceiling:
    timed = row.work is not None and bool(row.readings)
    summary = summarize(row.readings, row.calls, row.work.samples) if timed and row.work else None
    known = "not-cold" not in row.codes  # a storage that was not cold has no rate
    return Ceiling(
        resource=row.variant.ceiling or row.variant.name,
        task=row.variant.task,
        readings_s=tuple(row.readings),
        calls_per_reading=row.calls if timed else 0,
        work=row.work,
        median_s=summary.median_s if summary else None,
        bytes_per_s=row.work.output_bytes / summary.median_s if summary and row.work and known else None,
        samples_per_s=summary.samples_per_s if summary and known else None,
        library=row.prepared.library,
        warnings=warnings_of(row.readings, row.load, row.codes),
        skipped=_skipped(row.prepared),
        failed=row.failed,
    )


def _skipped(prepared: Prepared) -> Skipped | None:
    return Skipped(prepared.skip_code, prepared.skip_reason or "") if prepared.skip_code else None
