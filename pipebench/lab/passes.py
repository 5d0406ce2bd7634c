"""Measures many tasks in turn, each in many fresh processes.

The processes of a task are spread over the whole run, so that its interval holds the drift of the machine during that
time. Each task is tried once, before its first process: several in a row while the places to time them are made ready.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from pipebench import stage
from pipebench.lab.timing import Trial, tried
from pipebench.lab.turns import QUICK_TRIES, USUAL_TRIES, Plan, Progress
from pipebench.results.measurement import RIGOROUS_PROCESSES, USUAL_PROCESSES, TaskResult
from pipebench.runner import Runners
from pipebench.task import Task, Variant, Workload

COLD_TASK = "read/image"


@dataclass(frozen=True)
class Passes:
    """How many processes each task gets: `most`, or fewer if its `budget_s` runs out first, but at least `least`.

    `each` is the plan for one of them. A process has few readings, because in the same time another process tells more
    than more readings: see docs/figures/repeatability.md.
    """

    most: int = USUAL_PROCESSES
    least: int = 5
    budget_s: float = 30.0
    each: Plan = field(default_factory=lambda: Plan(rounds=5, least_rounds=3, budget_s=3.0, tries=USUAL_TRIES))

    @classmethod
    def quick(cls) -> Passes:
        return cls(5, 5, 1.5, Plan(rounds=1, least_rounds=1, reading_s=0.005, tries=QUICK_TRIES))

    @classmethod
    def rigorous(cls) -> Passes:
        return cls(RIGOROUS_PROCESSES, 12, 90.0, Plan(rounds=6, least_rounds=3, budget_s=6.0, reading_s=0.020))


@dataclass
class _Job:
    """One task of the run, and the seconds that its processes have taken."""

    task: Task
    variants: Sequence[Variant]
    workload: Workload
    most: int
    trial: Trial | None = None
    processes: int = 0
    spent_s: float = 0.0

    def expected(self, passes: Passes) -> int:
        """How many processes it will have in the end, judged by how long those so far have taken."""
        if self.processes == 0:
            return self.most
        affordable = int(passes.budget_s * self.processes / max(self.spent_s, 1e-9))
        return min(self.most, max(passes.least, affordable))


def measure_all(
    rows: Sequence[tuple[Task, Sequence[Variant]]],
    workload: Workload,
    passes: Passes,
    *,
    trying: Runners,
    timing: Runners,
    progress: Progress,
    keep: Callable[[list[TaskResult]], None],
    now: Callable[[], float] = time.monotonic,
) -> None:
    """Measures the variants of every task in `rows`.

    Next is always the task that has the smallest share of the processes that it will have. So the processes of a quick
    task and those of a slow one are spread over the whole run. `keep` gets the results so far: after the first process
    of each task, then whenever as many more processes as there are tasks have ended, and at the end, also by Ctrl-C.
    """
    jobs = list(_jobs(rows, workload, passes))

    def found() -> list[TaskResult]:
        return [job.trial.result() for job in jobs if job.trial is not None]

    try:
        for job, trial in _tried_ahead(jobs, trying, timing, passes, progress):
            job.trial = trial
            _time(job, trial, timing, passes.each, progress, now)
            keep(found())
        for done in itertools.count():
            wanted = [job.expected(passes) for job in jobs]
            behind = min(jobs, key=lambda job: job.processes / job.expected(passes), default=None)
            if behind is None or behind.trial is None or behind.processes >= behind.expected(passes):
                return
            progress(sum(job.processes for job in jobs), sum(wanted), "timing in fresh processes")
            _time(behind, behind.trial, timing, passes.each, _silent, now)
            if done % len(jobs) == len(jobs) - 1:
                keep(found())
    finally:
        keep(found())


def _jobs(rows: Sequence[tuple[Task, Sequence[Variant]]], workload: Workload, passes: Passes) -> Iterator[_Job]:
    for task, variants in rows:
        yield _Job(task, variants, workload, passes.most)
        if task.id == COLD_TASK and workload.cache == "warm":  # to know the storage's rate too
            yield _Job(task, (), replace(workload, cache="cold"), passes.least)


def _tried_ahead(
    jobs: Sequence[_Job], trying: Runners, timing: Runners, passes: Passes, progress: Progress
) -> Iterator[tuple[_Job, Trial]]:
    """Each job with its trial. While `timing` is not ready, the next jobs are tried."""
    ahead: deque[tuple[_Job, Trial]] = deque()
    for job in jobs:
        ahead.append((job, _tried(job, trying, passes, progress)))
        while ahead and timing.ready(wait=job is jobs[-1]):
            yield ahead.popleft()


def _tried(job: _Job, trying: Runners, passes: Passes, progress: Progress) -> Trial:
    ceilings = stage.ceilings(job.task.id, job.workload)
    trial = tried(
        job.task,
        job.variants,
        job.workload,
        runners=trying,
        tries=passes.each.tries,
        ceilings=ceilings,
        progress=progress,
    )
    trial.release()
    return trial


def _time(job: _Job, trial: Trial, timing: Runners, plan: Plan, progress: Progress, now: Callable[[], float]) -> None:
    begin = now()
    trial.time(timing, plan, progress, now)
    job.processes = max((sum(1 for count in row.counts if count) for row in trial.rows), default=0) or job.processes + 1
    if not any(row.able and row.keys for row in trial.rows):
        job.processes = job.most  # another process would time nothing
    job.spent_s += now() - begin


def _silent(done: int, total: int, what: str) -> None:
    """After the first process of each task, the whole is the activity to show."""
