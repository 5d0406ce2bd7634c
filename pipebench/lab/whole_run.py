"""The main job: measures every chosen variant of every chosen task, one task after the other, into one report."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pipebench import stage, task
from pipebench.check.whole import noticed
from pipebench.data import datasets
from pipebench.errors import BadSample, PipebenchError, UsageError, did_you_mean
from pipebench.host import machine
from pipebench.lab.earlier import with_earlier
from pipebench.lab.fresh import fresh_runners, warm
from pipebench.lab.passes import Passes, measure_all
from pipebench.lab.turns import Progress
from pipebench.reference.loader_table import LoaderPlan, check_rows, measure_loader
from pipebench.reference.published_rates import PUBLISHED
from pipebench.reference.watched_training import Length, check_asked, measure_training
from pipebench.results.consumers import Consumer
from pipebench.results.loading import Loading
from pipebench.results.measurement import TaskResult
from pipebench.results.report import Data, Report, new
from pipebench.results.training import Training
from pipebench.stages import read
from pipebench.task import Task, Variant, Workload
from pipebench.units import printable


@dataclass(frozen=True)
class Selection:
    """The tasks to measure, and the variants of each."""

    rows: tuple[tuple[Task, tuple[Variant, ...]], ...]

    @property
    def variants(self) -> list[Variant]:
        return [one for _, found in self.rows for one in found]


def select(
    stages: Sequence[str] = (), names: Sequence[str] = (), quick: bool = False, every: bool = False
) -> Selection:
    """The variants called `names` (a name, `task/name`, or a task) in `stages` (a stage or a task); all if empty.

    Tasks that stand apart are left out unless `every` one is wanted, their stage is named, or a name is theirs alone.

    If `quick`, those that are not named and need a process with other environment variables are left out: its imports
    take several seconds of every other process's time.
    """
    stages_and_tasks = [*task.STAGES, *(one.id for one in stage.tasks())]
    for wanted in stages:
        if wanted not in stages_and_tasks:
            near = did_you_mean(wanted, stages_and_tasks)
            raise UsageError(f"there is no stage {wanted!r}", f"{near}the stages are {', '.join(task.STAGES)}")
    known = [task for task in stage.tasks() if {task.stage, task.id} & set(stages)]
    if not stages:
        known = stage.tasks() if every else _usual(names)
    rows = [(task, tuple(_named(stage.variants(task.id), names, quick))) for task in known]
    found = {one for _, kept in rows for variant in kept for one in (variant.name, variant.id, variant.task)}
    for wanted in names:
        if wanted not in found:
            raise UsageError(f"there is no variant {wanted!r}{_where(stages)}", _which(wanted, known, bool(stages)))
    return Selection(tuple(row for row in rows if row[1]))


def _where(stages: Sequence[str]) -> str:
    return f" in {', '.join(dict.fromkeys(stages))}" if stages else ""


def _which(wanted: str, known: Sequence[Task], few: bool) -> str:
    """The remedy for a name that no variant has: the nearest one, and the names if they are `few`."""
    near = did_you_mean(wanted, _names(known))
    if not few:
        return f"{near}see `pipebench run --list`"
    names = dict.fromkeys(one.name for task in known for one in stage.variants(task.id))
    return f"{near}its variants are {', '.join(names)}"


def _usual(names: Sequence[str]) -> list[Task]:
    """The tasks that are measured where no stage is named: those that stand apart only for a name that is theirs."""
    theirs = set(names) - _names(task for task in stage.tasks() if not task.apart)
    return [task for task in stage.tasks() if not task.apart or theirs & _names([task])]


def _names(tasks: Iterable[Task]) -> set[str]:
    """Every name by which a variant of these tasks can be chosen."""
    return {name for its in tasks for one in stage.variants(its.id) for name in (one.name, one.id, one.task)}


def _named(variants: Iterable[Variant], names: Sequence[str], quick: bool) -> Iterable[Variant]:
    wanted = set(names)
    for one in variants:
        costly = quick and one.runner is not None and bool(one.runner.environment)
        if {one.name, one.id, one.task} & wanted or not (wanted or costly):
            yield one


@dataclass(frozen=True)
class Feeding:
    """What is measured after the stages: the loader table, and live training beside its bounds.

    `workers` is the number that was asked for; None means the usable cores less one, which the training loop needs.
    `length` sets for how many iterations training is watched; `steps`, if given, is that number itself. `simulated_s`
    replaces the model by a simulated device that takes so many seconds for each batch, and `rate` by one that takes so
    many images per second. `step` names a `module:function` that trains instead of the model.
    """

    loading: Loading
    workers: int | None
    loader: LoaderPlan
    length: Length = "usual"
    steps: int | None = None
    simulated_s: float | None = None
    rate: float | None = None
    step: str | None = None

    @property
    def trains(self) -> bool:
        """Whether training is measured. It takes about as long as the rest of a quick run, so there only if asked."""
        return self.length != "quick" or bool(self.steps or self.simulated_s or self.rate or self.step)

    @property
    def knobs(self) -> Loading:
        wanted = self.workers if self.workers is not None else max(1, math.floor(machine.usable_cores()) - 1)
        return replace(self.loading, workers=wanted)

    def batch_s(self, batch_size: int) -> float | None:
        """The seconds that a simulated device takes for a batch; None if a model trains."""
        return batch_size / self.rate if self.rate else self.simulated_s

    def consumers(self, batch_size: int) -> tuple[Consumer, ...]:
        """What could take the images: the stated consumer, or published ones. A step's own rate is measured later."""
        if self.rate:
            return (Consumer("your consumer", self.rate, "stated"),)
        if self.simulated_s:
            return (Consumer("simulated device", batch_size / self.simulated_s, "stated"),)
        return () if self.step else PUBLISHED


def feeding(
    loading: Loading,
    workers: int | None = None,
    length: Length = "usual",
    steps: int | None = None,
    simulated_s: float | None = None,
    consumer: float | str | None = None,
) -> Feeding:
    """The loader table and the training, with the plans of a length.

    `consumer` is what the user named: images per second, or `module:function`.
    """
    rate, step = (None, consumer) if isinstance(consumer, str) else (consumer, None)
    plans = {"quick": LoaderPlan.quick(), "usual": LoaderPlan(), "rigorous": LoaderPlan.rigorous()}
    return Feeding(loading, workers, plans[length], length, steps, simulated_s, rate, step)


def run(
    selection: Selection,
    workload: Workload,
    passes: Passes,
    *,
    device: str | None = None,
    feeding: Feeding | None = None,
    progress: Progress,
    keep: Callable[[Report], None],
) -> Report:
    """Measures the selection. `keep` gets the report so far, first after every task, then after every pass over them.

    Transfers and steps use `device`, by default the CUDA device if there is one. With `feeding`, loader and training
    are measured after the stages.
    """
    # What stands apart has data of its own, so an embedded data set would be built and described for nothing.
    apart = all(one.apart for one, _ in selection.rows) and datasets.is_embedded(workload.data)
    listed = None if apart else read.load(workload, progress)
    trying, timing = fresh_runners(selection.variants)
    with trying, timing:
        progress(0, 0, "importing torch")
        workload = replace(workload, device=chosen_device(device))
        report = new(
            storage_of(listed) if listed else None,
            partial=True,
            workload=replace(workload, data=printable(workload.data)),
            data=_data(listed) if listed else None,
            bad_samples=listed.problems if listed else (),
        )
        keep(report)
        if feeding is not None:
            check_rows(workload, feeding.knobs, feeding.loader, feeding.workers)
            check_asked(workload, feeding.knobs, feeding.step)
        bare = report

        def note(results: list[TaskResult]) -> None:
            nonlocal report
            report = _with(bare, results)
            keep(report)

        warm(timing, selection.variants, workload)
        measure_all(selection.rows, workload, passes, trying=trying, timing=timing, progress=progress, keep=note)
    if feeding is not None:
        report = _fed(report, workload, feeding, progress, keep)
    report = with_earlier(replace(report, partial=False))
    keep(report)
    return report


def _with(report: Report, results: Sequence[TaskResult]) -> Report:
    """The report with the results of its tasks."""
    return replace(
        report,
        measurements=tuple(one for result in results for one in result.measurements),
        ceilings=tuple(one for result in results for one in result.ceilings),
        bad_samples=report.bad_samples + tuple(one for result in results for one in result.bad_samples),
    )


def _fed(
    report: Report, workload: Workload, feeding: Feeding, progress: Progress, keep: Callable[[Report], None]
) -> Report:
    """The report with loader and training added. If one fails, the report says why before the error is raised again."""
    so_far = [replace(report, consumers=feeding.consumers(workload.batch_size))]

    def note(bad: tuple[BadSample, ...], **found: Any) -> None:
        so_far[0] = replace(so_far[0], bad_samples=_merged(so_far[0].bad_samples, bad), **found)
        keep(so_far[0])

    knobs = feeding.knobs
    try:
        measure_loader(
            workload,
            knobs,
            feeding.loader,
            asked=feeding.workers,
            progress=progress,
            keep=lambda rows, bad: note(bad, loader=rows),
        )
        if feeding.trains:
            measure_training(
                workload,
                knobs,
                feeding.length,
                steps=feeding.steps,
                simulated_s=feeding.batch_s(workload.batch_size),
                step=feeding.step,
                progress=progress,
                keep=lambda training, bad: note(bad, training=training, **_measured(training)),
            )
    except PipebenchError as error:
        note((), failure=error.problem)
        raise
    return so_far[0]


def _measured(training: Training) -> dict[str, tuple[Consumer, ...]]:
    """The rate of the user's own consumer: that of the loop whose batches are ready. Empty if it was not measured."""
    if not training.given or training.bound.bound is None:
        return {}
    ready = training.bound.bound
    return {"consumers": (Consumer(training.consumer, ready.samples_per_s, "measured", ready.low, ready.high),)}


def _merged(known: tuple[BadSample, ...], more: tuple[BadSample, ...]) -> tuple[BadSample, ...]:
    """The known bad samples and `more`. Every loader meets the same bad samples, so each of these is kept once."""
    seen = {one.sample for one in known if one.stage == "loader"}
    return known + tuple(one for one in more if one.sample not in seen)


def chosen_device(wanted: str | None) -> Literal["cpu", "cuda"]:
    """The device for transfers and steps: the one asked for, by default the CUDA device if there is one."""
    import torch

    if wanted == "cuda" and not torch.cuda.is_available():
        raise PipebenchError(
            "there is no CUDA device here", "leave out --device: transfers are skipped, steps use the CPU"
        )
    return "cpu" if wanted == "cpu" or not torch.cuda.is_available() else "cuda"


def storage_of(listed: datasets.Dataset) -> Path | None:
    """A path of the data; the report names the storage that holds it. None if there is no file."""
    for one in listed.samples:
        cell = (one.cell.path,) if one.cell else ()
        for path in (*one.files.values(), *(extent.path for extent in one.extents.values()), *cell):
            return Path(path)
    return None


def _data(listed: datasets.Dataset) -> Data:
    facts = datasets.describe(listed)
    bits = (facts.bits_per_pixel, facts.bits_per_pixel_sd)
    return Data(listed.name, facts.images, facts.mean_bytes, *bits, noticed(listed))


def unmeasured(report: Report) -> list[str]:
    """Why a finished run has not measured what it was asked to: one line for each reason, empty if all is well.

    Bad samples and skipped rows are not failures. A variant that broke is a failure, and so is a variant whose outputs
    were all wrong. A task without a single good sample is a failure too, and so is a run of which all was skipped.
    """
    reasons = [
        f"{one.task}/{one.variant}: {one.failed}"
        for one in report.measurements
        if one.failed and (one.samples_failed < one.samples_attempted or _wrong(report, one.task, one.variant))
    ]
    for task_id in dict.fromkeys(one.task for one in report.measurements):
        ran = [one for one in report.measurements if one.task == task_id and one.skipped is None]
        if ran and not any(one.readings_s for one in ran):
            reasons.append(f"{task_id}: no good sample")
    if report.measurements and all(one.skipped for one in report.measurements) and not report.loader:
        reasons.append("nothing was measured: every variant was skipped")
    return reasons


def _wrong(report: Report, task_id: str, name: str) -> bool:
    kinds = {bad.kind for bad in report.bad_samples if bad.task == task_id and bad.variant == name}
    return bool(kinds) and kinds <= {"contract", "disagrees", "missing"}
