"""Tries one task's variants on every sample, then times them in turn on the samples that all of them can do."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from pipebench import stage
from pipebench.lab.bounding import Bound, over
from pipebench.lab.checking import Row, groups_of, lost_since, model_of, prepare, spread, stand_in, try_all
from pipebench.lab.turns import Plan as Plan  # asv suites take it from here, in every commit
from pipebench.lab.turns import Progress, take_readings
from pipebench.results.measurement import Ceiling, Measurement, Skipped, TaskResult, warnings_of
from pipebench.runner import Prepared, RunnerDied, Runners
from pipebench.stats import summarize
from pipebench.task import Task, Variant, Workload
from pipebench.units import printable

TIMED_ANEW = 2  # how often at most a task is timed again because files of its samples vanished


@dataclass
class Trial:
    """One task while it is measured: its rows, what they must agree with, and the samples that all of them can do.

    A row that is not made for some of the samples is timed on the others. `beside` has the reference for such a row,
    timed on the same samples.
    """

    task: Task
    workload: Workload
    rows: list[Row]
    known: Row
    model: Row
    groups: list[tuple[str, ...]]
    good: list[str]
    runners: Runners  # the places where the rows are tried
    let_go: bool = False  # whether these have let go of what they had built for the task
    beside: dict[frozenset[str], Row] = field(default_factory=dict)  # by the samples that it leaves out

    def __post_init__(self) -> None:
        base = self.known if self.known.usable else self.model
        for row in self.rows:
            row.out = frozenset(row.unfit).intersection(self.good)
            if row.out and row.able and not row.variant.ceiling and base in self.rows:
                self.beside[row.out] = Row(
                    base.variant, base.runner, prepared=base.prepared, attempted=1, out=row.out, of=row
                )

    @property
    def _timed(self) -> list[Row]:
        return [*self.rows, *self.beside.values()]

    def time(
        self,
        timing: Runners,
        plan: Plan,
        progress: Progress = lambda done, total, what: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Takes readings of every row in turn, in one process of `timing`."""
        for rows in self._what_stays():
            take_readings(self.task, rows, self.workload, timing, plan, progress, now)

    def _what_stays(self) -> Iterator[list[Row]]:
        """Gives each row the samples to time, and yields the rows. If files of these vanish meanwhile, does so again.

        Removes the lost samples from `good`. A row that broke for another reason stays failed and costs the others
        nothing.
        """
        for left in reversed(range(1 + TIMED_ANEW)):
            rows = self._with_samples()
            if not rows:
                return
            before = [row.failed for row in rows]
            yield rows
            broken = [(row, row.failed) for row, was in zip(rows, before, strict=True) if row.failed != was]
            if not broken or not left:
                return
            for row, _ in broken:
                row.failed = None
            lost = self._lost({key for row in rows for key in row.keys})
            if not lost:
                for row, said in broken:
                    row.failed = said
                return
            self.good[:] = [key for key in self.good if key not in lost]
            for row in self._timed:
                row.renew()

    def _with_samples(self) -> list[Row]:
        """The rows that have samples to be timed on: each as many as one call has, of those that it is made for."""
        count = self.task.per_call(self.workload)
        for row in self._timed:
            fit = [key for key in self.good if key not in row.out]
            row.keys = tuple(fit[:count]) if self.task.from_the_start else tuple(spread(fit, count))
        return [row for row in self._timed if row.keys]

    def _lost(self, timed: set[str]) -> set[str]:
        if self.let_go:
            for row in dict.fromkeys([*self.rows, self.model]):
                if row.usable:
                    prepare(row, self.workload, self.runners)
        groups = [tuple(key for key in group if key in timed) for group in self.groups]
        return lost_since(self.task, self.rows, self.model, groups, self.workload)

    def release(self) -> None:
        """Frees what the places to try have built for the task."""
        self.let_go = True
        for runner in self.runners:
            with contextlib.suppress(RunnerDied):  # its rows already say so
                runner.release()

    def _reference(self) -> Row:
        """The row that the others are compared with: the task's reference or, if it cannot run on this data, its model.

        A row that would be compared with nothing but itself has no stand-in.
        """
        timed = [row for row in self.rows if row.readings and not row.variant.ceiling]
        return self.known if self.known.usable or len(timed) < 2 else self.model

    def result(self) -> TaskResult:
        """The results from the readings so far."""
        bound, reference = Bound(self.rows), self._reference()
        return TaskResult(
            tuple(
                _measurement(row, self.beside.get(row.out, reference), bound, self.workload, self.good)
                for row in self.rows
                if not row.variant.ceiling
            ),
            tuple(_ceiling(row, bound) for row in self.rows if row.variant.ceiling),
            tuple(record for row in self.rows if not row.variant.ceiling for record in row.bad.values()),
        )


def tried(
    task: Task,
    variants: Sequence[Variant],
    workload: Workload,
    *,
    runners: Runners,
    tries: int | None,
    ceilings: Sequence[Variant] = (),
    reference: Variant | None = None,
    progress: Progress = lambda done, total, what: None,
) -> Trial:
    """Tries the `variants` of `task` on at most `tries` samples; None: on all."""
    workload = task.adapt(workload)
    rows = [Row(variant) for variant in [*variants, *ceilings]]
    for row in rows:
        prepare(row, workload, runners)
    wanted = reference or stage.reference(task.id)
    known = next((row for row in rows if row.id == wanted.id), None)
    if known is None:  # not asked for, but the others must agree with it
        known = Row(wanted)
        prepare(known, workload, runners)
    groups = groups_of(task, workload, tries)
    if not variants:  # ceilings alone are measured on samples that some variant can do
        rows = [*rows, *stand_in(task, known, workload, runners)]
    model = model_of(rows, known)
    good = try_all(task, rows, model, groups, workload, progress)
    rows = rows[: len(variants) + len(ceilings)]
    return Trial(task, workload, rows, known, model, groups, good, runners)


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
    """Tries the `variants` of `task`, then times them beside their `ceilings`, in the one process of each place.

    A row that fails never stops the others.
    """
    trial = tried(
        task,
        variants,
        workload,
        runners=runners,
        tries=plan.tries,
        ceilings=ceilings,
        reference=reference,
        progress=progress,
    )
    trial.time(runners, plan, progress, now)
    trial.release()
    return trial.result()


def _measurement(row: Row, reference: Row, bound: Bound, workload: Workload, good: Sequence[str]) -> Measurement:
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
        summary=summarize(row.readings, row.calls, samples, row.counts) if timed else None,
        over_reference=over(row, reference) if timed and reference.readings else None,
        fraction_of_ceiling=bound.share(row),
        samples_attempted=row.attempted,
        samples_failed=len(row.bad),
        library=prepared.library,
        gives_up=variant.gives_up,
        samples_common=sum(key not in row.out for key in good),
        load=row.load if timed else None,
        warnings=warnings_of(row.readings, row.load, row.codes, row.counts) + bound.faults(row),
        skipped=_skipped(prepared),
        failed=row.failed or _unable(row),
        over_ceiling=bound.beside(row),
        ceiling=bound.name(row),
        readings_per_process=tuple(count for count in row.counts if count),
        samples_unlike=len(row.unlike),
        samples_unfit=len(row.unfit),
    )


def _unable(row: Row) -> str | None:
    """Why a variant that ran could not do a single sample; None if it could, or did not run."""
    if not row.attempted or row.attempted > len(row.bad):
        return None
    first = next(iter(row.bad.values()))
    return f"it could do none of {row.attempted} samples; the first: {first.kind}: {first.message}"


def _ceiling(row: Row, bound: Bound) -> Ceiling:
    timed = row.work is not None and bool(row.readings)
    summary = summarize(row.readings, row.calls, row.work.samples, row.counts) if timed and row.work else None
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
        warnings=warnings_of(row.readings, row.load, row.codes, row.counts) + bound.faults(row),
        skipped=_skipped(row.prepared),
        failed=row.failed,
        way=row.variant.way,
        bounds=row is bound.row,
        over_bound=bound.slower(row),
        readings_per_process=tuple(count for count in row.counts if count),
    )


def _skipped(prepared: Prepared) -> Skipped | None:
    return Skipped(prepared.skip_code, prepared.skip_reason or "") if prepared.skip_code else None
