"""Tries one task's variants on every sample, then times them in turn on the samples that all of them can do."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pipebench import stage
from pipebench.lab.bounding import Bound, over
from pipebench.lab.checking import Row, fail, groups_of, lost_since, model_of, prepare, stand_in, try_all
from pipebench.results.measurement import FEWEST_READINGS, Ceiling, Measurement, Skipped, TaskResult, warnings_of
from pipebench.runner import Prepared, RunnerDied, Runners
from pipebench.stats import summarize
from pipebench.task import Task, Variant, Workload
from pipebench.units import printable

TIMED_ANEW = 2  # how often at most a task is timed again because files of its samples vanished
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Plan:
    """How long to measure. Each variant gets `rounds` readings, or fewer if the task's `budget_s` runs out first.

    It gets at least `least_rounds` readings. Each reading takes about `reading_s`.
    """

    rounds: int = 24
    least_rounds: int = FEWEST_READINGS
    budget_s: float = 6.0
    reading_s: float = 0.010
    tries: int | None = None  # how many samples at most are tried before timing; None: all that are listed

    @classmethod
    def quick(cls) -> Plan:
        return cls(rounds=6, budget_s=0.8, tries=512)

    @classmethod
    def rigorous(cls) -> Plan:
        return cls(rounds=60, least_rounds=12, budget_s=40.0, reading_s=0.020)


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
) -> TaskResult:
    """Tries the `variants` of `task`, then times them beside their `ceilings`. A row that fails never stops the others.

    Raises `Interrupted`, with the result so far, after Ctrl-C during the timing.
    """
    workload = task.adapt(workload)
    rows = [Row(variant) for variant in [*variants, *ceilings]]
    for row in rows:
        prepare(row, workload, runners)
    wanted = reference or stage.reference(task.id)
    known = next((row for row in rows if row.id == wanted.id), None)
    if known is None:  # not asked for, but the others must agree with it
        known = Row(wanted)
        prepare(known, workload, runners)
    groups = groups_of(task, workload, plan.tries)
    if not variants:  # ceilings alone are measured on samples that some variant can do
        rows = [*rows, *stand_in(task, known, workload, runners)]
    model = model_of(rows, known)
    good = try_all(task, rows, model, groups, workload, progress)
    rows = rows[: len(variants) + len(ceilings)]
    stopped = False
    try:
        for keys in _what_stays(task, rows, model, groups, good, workload):
            _time_all(task, rows, keys, workload, runners, plan, progress, now)
    except KeyboardInterrupt:
        stopped = True
    bad = [record for row in rows for record in row.bad.values()]
    for runner in () if stopped else runners:
        with contextlib.suppress(RunnerDied):  # its rows already say so
            runner.release()
    bound = Bound(rows)
    result = TaskResult(
        tuple(_measurement(row, known, bound, workload, len(good)) for row in rows if not row.variant.ceiling),
        tuple(_ceiling(row, bound) for row in rows if row.variant.ceiling),
        tuple(bad),
    )
    if stopped:
        raise Interrupted(result)
    return result


class Interrupted(KeyboardInterrupt):
    """Ctrl-C came while a task was timed. `result` holds the readings taken before."""

    def __init__(self, result: TaskResult) -> None:
        super().__init__()
        self.result = result


def _what_stays(
    task: Task,
    rows: Sequence[Row],
    model: Row,
    groups: Sequence[tuple[str, ...]],
    good: list[str],
    workload: Workload,
) -> Iterator[tuple[str, ...]]:
    """Yields the samples to time. If files of these vanish meanwhile, yields the samples left, to be timed again.

    Removes the lost samples from `good`. A row that broke for another reason stays failed and costs the others nothing.
    """
    count = task.per_call(workload)
    for left in reversed(range(1 + TIMED_ANEW)):
        keys = tuple(good[:count]) if task.from_the_start else _spread(good, count)
        if not keys:
            return
        before = [row.failed for row in rows]
        yield keys
        broken = [(row, row.failed) for row, was in zip(rows, before, strict=True) if row.failed != was]
        if not broken or not left:
            return
        for row, _ in broken:
            row.failed = None
        timed = set(keys)
        lost = lost_since(
            task, rows, model, [tuple(key for key in group if key in timed) for group in groups], workload
        )
        if not lost:
            for row, said in broken:
                row.failed = said
            return
        good[:] = [key for key in good if key not in lost]
        for row in rows:
            row.renew()


def _spread(keys: Sequence[str], count: int) -> tuple[str, ...]:
    """`count` of the keys, in order, spread evenly over all of them."""
    if len(keys) <= count:
        return tuple(keys)
    return tuple(keys[index * len(keys) // count] for index in range(count))


def _time_all(
    task: Task,
    rows: list[Row],
    keys: tuple[str, ...],
    workload: Workload,
    runners: Runners,
    plan: Plan,
    progress: Progress,
    now: Callable[[], float],
) -> None:
    """Arms every row and sets the size of its block. Then takes one reading of each in turn; the order rotates."""
    for row in rows:
        if row.able:
            _guard(row, runners, partial(_arm, row, keys, workload, plan))
    deadline, before = now() + plan.budget_s, runners.load()
    for turn in range(plan.rounds):
        if turn >= plan.least_rounds and now() > deadline:
            break
        live = [row for row in rows if row.able]
        for row in live[turn % len(live) :] + live[: turn % len(live)] if live else []:
            _guard(row, runners, partial(_read, row))
        progress(turn + 1, plan.rounds, f"{task.id}: timing {len(live)} variants")
    load = runners.load() - before  # for all turns together: the counters tick every 10 ms, too coarse for one row
    for row in rows:
        row.load = load


def _guard(row: Row, runners: Runners, action: Callable[[], None]) -> None:
    try:
        action()
    except Exception as error:
        fail(row, runners, error)


def _arm(row: Row, keys: tuple[str, ...], workload: Workload, plan: Plan) -> None:
    assert row.runner is not None
    row.work = row.runner.arm(row.id, workload, keys)
    row.first_s, _ = row.runner.reading(row.id, 1)
    if workload.cache == "cold" and row.variant.stage == "read":
        return  # a second call would find the files warm
    once, _ = row.runner.reading(row.id, 1)
    row.calls = max(1, math.ceil(plan.reading_s / max(once, 1e-9)))


def _read(row: Row) -> None:
    assert row.runner is not None
    seconds, code = row.runner.reading(row.id, row.calls)
    row.readings.append(seconds)
    if code:
        row.codes.add(code)


def _measurement(row: Row, reference: Row | None, bound: Bound, workload: Workload, common: int) -> Measurement:
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
        over_reference=over(row, reference) if timed and reference and reference.readings else None,
        fraction_of_ceiling=bound.share(row),
        samples_attempted=row.attempted,
        samples_failed=len(row.bad),
        library=prepared.library,
        gives_up=variant.gives_up,
        samples_common=common,
        load=row.load if timed else None,
        warnings=warnings_of(row.readings, row.load, row.codes) + bound.faults(row),
        skipped=_skipped(prepared),
        failed=row.failed or _unable(row),
        over_ceiling=bound.beside(row),
        ceiling=bound.name(row),
    )


def _unable(row: Row) -> str | None:
    """Why a variant that ran could not do a single sample; None if it could, or did not run."""
    if not row.attempted or row.attempted > len(row.bad):
        return None
    first = next(iter(row.bad.values()))
    return f"it could do none of {row.attempted} samples; the first: {first.kind}: {first.message}"


def _ceiling(row: Row, bound: Bound) -> Ceiling:
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
        warnings=warnings_of(row.readings, row.load, row.codes) + bound.faults(row),
        skipped=_skipped(row.prepared),
        failed=row.failed,
        way=row.variant.way,
        bounds=row is bound.row,
        over_bound=bound.slower(row),
    )


def _skipped(prepared: Prepared) -> Skipped | None:
    return Skipped(prepared.skip_code, prepared.skip_reason or "") if prepared.skip_code else None
