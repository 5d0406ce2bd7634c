"""Measures one task from Python: `pipebench.measure`."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pipebench import stage
from pipebench.errors import BadSample, PipebenchError, UsageError, did_you_mean
from pipebench.host.clock import Clock
from pipebench.lab.timing import measure
from pipebench.lab.turns import Plan
from pipebench.lab.whole_run import chosen_device
from pipebench.results.measurement import Measurement, TaskResult, Warning
from pipebench.runner import LocalRunner, Runners
from pipebench.stages import read
from pipebench.stats import Speedup
from pipebench.task import Task, Variant, Work, Workload


@dataclass(frozen=True)
class Cost:
    """The cost of one sample with one variant, in seconds: the median of the readings, and its 95 % interval.

    All readings come from this process, so the interval is for this process. In another process, the same code can lie
    elsewhere in memory, and its cost outside of the interval.

    `speedup` is over the task's reference, which is read in the same turns; None if the reference cannot run here.
    `measurement` has all readings.
    """

    task: str
    variant: str
    per_sample_s: float
    low_s: float
    high_s: float
    speedup: Speedup | None
    warnings: tuple[Warning, ...]
    measurement: Measurement

    @property
    def samples_per_s(self) -> float:
        return 1 / self.per_sample_s


@dataclass(frozen=True)
class TaskCosts:
    """The costs of the variants of one task, by name, the reference first.

    `missing` says why a variant has no figure. `bad_samples` are the samples that at least one variant could not do.
    All variants are timed on the same samples: those that all of them can do. One that is not made for some of them
    (`measurement.samples_unfit`) is timed on the others, and its speed-up is over the reference on the same.
    """

    task: str
    costs: Mapping[str, Cost]
    missing: Mapping[str, str]
    bad_samples: tuple[BadSample, ...]


def of_task(task_id: str, workload: Workload, plan: Plan, device: str | None) -> TaskCosts:
    """Measures what every variant of a task costs."""
    task = _task(task_id)
    return _measured(task, stage.variants(task.id), workload, plan, device)


def of_variant(task_id: str, name: str, workload: Workload, plan: Plan, device: str | None) -> Cost:
    """Measures what one variant costs, beside the reference of its task."""
    task = _task(task_id)
    known = {one.name: one for one in stage.variants(task.id)}
    if name not in known:
        raise UsageError(f"{task.id} has no variant {name!r}", f"its variants are {', '.join(known)}")
    chosen = dict.fromkeys([stage.reference(task.id), known[name]])
    found = _measured(task, list(chosen), workload, plan, device)
    if name in found.missing:
        raise PipebenchError(f"{task.id}/{name} was not measured: {found.missing[name]}", "choose another variant")
    return found.costs[name]


def of_functions(
    name: str, functions: Mapping[str, Callable[[], Any]], clock: Clock | None = None
) -> tuple[Measurement, ...]:
    """Measures any functions in turn, in this process; a call is one sample. The first is the others' reference.

    `name` is the id of their task. What a function returns is not looked at.
    """
    task = Task(
        id=name,
        summary="functions",
        groups=lambda workload: [("call",)],
        inputs=lambda workload, keys: [None],
        check=lambda output, given: None,
        agree=lambda output, expected, variant: None,
        work=lambda given, output: Work(1, 0, 0),
        per_call=lambda workload: 1,
    )
    variants = {f"{name}/{one}": Variant(name, one, _building(function)) for one, function in functions.items()}
    found = list(variants.values())
    with _threads_as_they_were(), Runners(LocalRunner(clock, lambda identity: (task, variants[identity]))) as runners:
        result = measure(task, found, Workload(data="functions"), runners=runners, plan=Plan(), reference=found[0])
    return result.measurements


def _building(function: Callable[[], Any]) -> Callable[[Workload], Callable[[Any], Any]]:
    return lambda workload: lambda given: function()


def _task(task_id: str) -> Task:
    known = {one.id: one for one in stage.tasks()}
    if task_id not in known:
        near = did_you_mean(task_id, known)
        raise UsageError(f"there is no task {task_id!r}", f"{near}the tasks are {', '.join(known)}")
    return known[task_id]


def _measured(task: Task, variants: list[Variant], workload: Workload, plan: Plan, device: str | None) -> TaskCosts:
    import torch  # noqa: F401  # now, so that its number of threads is restored afterwards

    read.load(workload)
    workload = replace(workload, device=chosen_device(device))
    with _threads_as_they_were(), Runners() as runners:
        runners.start(variants)
        return costs(task, measure(task, variants, workload, runners=runners, plan=plan))


@contextlib.contextmanager
def _threads_as_they_were() -> Iterator[None]:
    """Restores the thread counts of torch and OpenCV afterwards, because measuring sets them to one.

    torch's only if it is imported by now.
    """
    torch, opencv = sys.modules.get("torch"), sys.modules.get("cv2")
    before = torch.get_num_threads() if torch is not None else 0
    opencv_before = opencv.getNumThreads() if opencv is not None else -1  # -1 is OpenCV's own default
    try:
        yield
    finally:
        if torch is not None:
            torch.set_num_threads(before)
        if (imported := sys.modules.get("cv2")) is not None:
            imported.setNumThreads(opencv_before)


def costs(task: Task, result: TaskResult) -> TaskCosts:
    """The costs per sample from the result of measuring a task."""
    missing = {one.variant: why for one in result.measurements if (why := _why_missing(one)) is not None}
    found = {one.variant: _cost(one) for one in result.measurements if one.variant not in missing}
    return TaskCosts(task.id, found, missing, result.bad_samples)


def _why_missing(one: Measurement) -> str | None:
    if one.skipped is not None:
        return one.skipped.reason
    if one.failed is not None:
        return one.failed
    return "there is no sample that all variants can do" if one.summary is None else None


def _cost(one: Measurement) -> Cost:
    assert one.summary is not None and one.work is not None
    samples, seconds = one.work.samples, one.summary
    return Cost(
        one.task,
        one.variant,
        seconds.median_s / samples,
        seconds.low_s / samples,
        seconds.high_s / samples,
        one.over_reference,
        one.warnings,
        one,
    )
