"""The main job: every chosen variant of every chosen task, one task after the other, into one report."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pipebench import __version__, datasets, machine, stage
from pipebench.errors import PipebenchError, UsageError
from pipebench.measure import Plan, Progress, measure
from pipebench.report import SCHEMA_VERSION, Data, Report
from pipebench.runner import Runners
from pipebench.stage import Task, Variant, Workload
from pipebench.stages import read

COLD_TASK = "read/image"


@dataclass(frozen=True)
class Selection:
    """Which tasks, and which variants of each, are to be measured."""

    rows: tuple[tuple[Task, tuple[Variant, ...]], ...]

    @property
    def variants(self) -> list[Variant]:
        return [one for _, found in self.rows for one in found]


def select(stages: Sequence[str] = (), names: Sequence[str] = ()) -> Selection:
    """The variants called `names` (a name, `task/name`, or a task) in `stages` (a stage or a task); all if empty."""
    for wanted in stages:
        if wanted not in stage.STAGES and wanted not in [task.id for task in stage.tasks()]:
            raise UsageError(f"there is no stage {wanted!r}", f"the stages are {', '.join(stage.STAGES)}")
    known = [task for task in stage.tasks() if not stages or {task.stage, task.id} & set(stages)]
    rows = [(task, tuple(_named(stage.variants(task.id), names))) for task in known]
    found = {one for _, kept in rows for variant in kept for one in (variant.name, variant.id, variant.task)}
    for wanted in names:
        if wanted not in found:
            raise UsageError(f"there is no variant {wanted!r} here", "see `pipebench run --list`")
    return Selection(tuple(row for row in rows if row[1]))


def _named(variants: Iterable[Variant], names: Sequence[str]) -> Iterable[Variant]:
    return (one for one in variants if not names or {one.name, one.id, one.task} & set(names))


def run(
    selection: Selection,
    workload: Workload,
    plan: Plan,
    *,
    device: str | None = None,
    progress: Progress,
    keep: Callable[[Report], None],
) -> Report:
    """Measures the selection; `keep` is given the report so far after every task, so that an interruption loses one.

    `device` is where transfers and steps go, by default to the CUDA device if there is one.
    """
    listed = read.load(workload, progress)
    workload = replace(workload, device=_device(device))
    report = Report(
        schema_version=SCHEMA_VERSION,
        partial=True,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        pipebench=__version__,
        machine=machine.describe(),
        workload=workload,
        data=_data(listed),
        bad_samples=listed.problems,
    )
    with Runners() as runners:
        runners.start(selection.variants)
        for task, variants in selection.rows:
            report = _with(report, task, variants, workload, runners, plan, progress)
            if task.id == COLD_TASK and workload.cache == "warm":  # what storage gives is worth knowing all the same
                cold = replace(workload, cache="cold")
                report = _with(report, task, (), cold, runners, replace(plan, rounds=plan.least_rounds), progress)
            keep(report)
    report = replace(report, partial=False)
    keep(report)
    return report


def _with(
    report: Report,
    task: Task,
    variants: Sequence[Variant],
    workload: Workload,
    runners: Runners,
    plan: Plan,
    progress: Progress,
) -> Report:
    """The report with one task's results added."""
    bounds = stage.ceilings(task.id, workload)
    result = measure(task, variants, workload, runners=runners, plan=plan, ceilings=bounds, progress=progress)
    return replace(
        report,
        machine=machine.describe(),
        measurements=report.measurements + result.measurements,
        ceilings=report.ceilings + result.ceilings,
        bad_samples=report.bad_samples + result.bad_samples,
    )


def _device(wanted: str | None) -> Literal["cpu", "cuda"]:
    import torch

    if wanted == "cuda" and not torch.cuda.is_available():
        raise PipebenchError(
            "there is no CUDA device here", "leave out --device: transfers are skipped, steps use the CPU"
        )
    return "cpu" if wanted == "cpu" or not torch.cuda.is_available() else "cuda"


def _data(listed: datasets.Dataset) -> Data:
    facts = datasets.describe(listed)
    return Data(listed.name, facts.images, facts.mean_bytes, facts.bits_per_pixel, facts.bits_per_pixel_sd)


def unmeasured(report: Report) -> list[str]:
    """Why a finished run has not measured what it was asked to, one line a reason; empty when all is well.

    Bad samples and skipped rows are not failures. A variant that broke, or whose every output was wrong, is one; and so
    is a task for which there was no good sample at all.
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
    return reasons


def _wrong(report: Report, task_id: str, name: str) -> bool:
    stage_name = task_id.partition("/")[0]
    kinds = {bad.kind for bad in report.bad_samples if bad.stage == stage_name and bad.variant == name}
    return bool(kinds) and kinds <= {"contract", "disagrees", "missing"}
