"""The results of measuring. They keep every raw reading, and the warnings that belong to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from pipebench.errors import BadSample
from pipebench.host.gaps import GAP
from pipebench.host.machine import FOREIGN_LIMIT, STEAL_LIMIT, Load
from pipebench.stats import (
    Speedup,
    Summary,
    by_process,
    compare_processes,
    next_run,
    processes_needed,
    readings_needed,
    share_of_readings,
    summarize,
)
from pipebench.task import SkipCode, Work, Workload
from pipebench.units import percent, width

FEWEST_READINGS = 6  # the smallest number whose full range covers the median with a confidence of 95 %
USUAL_PROCESSES = 20  # the most that a run takes of a task
RIGOROUS_PROCESSES = 60  # the most with --rigorous
RIGOROUS_READINGS = 24  # the most that --rigorous takes in one process: of a loader
UNSTABLE_LIMIT = 0.10
MOST_REASONS = 3  # for which a variant is not made for samples, that are named
EXCEEDED = "ceiling-exceeded"  # the code of a warning
UNFIT = frozenset({"unfit", "rotated", "unsupported", "not-jpeg"})  # kinds of good files that a variant is not made for
NOISE = frozenset({"foreign-load", "steal", "throttled", "unstable", "too-few-readings"})  # said once for a whole run


@dataclass(frozen=True)
class Warning:
    """A problem that makes a figure less trustworthy, and its remedy."""

    code: str
    problem: str
    remedy: str
    severity: float = 1.0  # of several rows with the same code, reports name the one with the highest severity


@dataclass(frozen=True)
class Skipped:
    """Why a variant was not run."""

    code: SkipCode
    reason: str


@dataclass(frozen=True)
class Measurement:
    """All readings of one variant on one workload, with its work and its warnings. Statistics derive from the readings.

    `readings_per_process` says how many of the readings each process took, in their order. Empty: one process took
    them all.

    `over_reference` is the speed-up over the task's reference variant. `fraction_of_ceiling` is the speed of this
    variant divided by the speed of the task's ceiling. Near 1, there is nothing more to gain. It is None if any row of
    the task exceeds the ceiling by more than its interval, because then the ceiling is no limit. `ceiling` names the
    ceiling, and `over_ceiling` is the speed-up over it, with its interval.
    """

    stage: str
    task: str
    variant: str
    workload: Workload
    readings_s: tuple[float, ...] = ()
    first_reading_s: float | None = None
    calls_per_reading: int = 0
    work: Work | None = None
    summary: Summary | None = None
    over_reference: Speedup | None = None
    fraction_of_ceiling: float | None = None
    samples_attempted: int = 0
    samples_failed: int = 0
    library: str | None = None
    gives_up: str | None = None
    samples_common: int = 0  # of those attempted, the number that all could process, and that this one is made for
    load: Load | None = None  # the host's load while the readings were taken
    warnings: tuple[Warning, ...] = ()
    skipped: Skipped | None = None
    failed: str | None = None
    over_ceiling: Speedup | None = None
    ceiling: str | None = None
    readings_per_process: tuple[int, ...] = ()
    samples_unlike: int = 0  # of those that failed, the number that the reference did: their files are not at fault
    samples_unfit: int = 0  # of those, the number that it is not made for: it and its reference are timed on others

    def over(self, other: Measurement) -> Speedup:
        """The speed-up of one call over one call of `other`, which was read in the same turns."""
        ours, theirs = (by_process(one.readings_s, one.readings_per_process) for one in (self, other))
        return compare_processes(ours, theirs, scale=self.calls_per_reading / other.calls_per_reading)


@dataclass(frozen=True)
class Ceiling:
    """A physical limit of this machine, with all its readings.

    They were taken in turn with the readings of the variants that it bounds. A resource can be reached in several ways;
    each `way` is a ceiling. `bounds` says that this one was the fastest, so that the variants were held against it.
    The others have `over_bound`, their speed-up over it, which is at most about 1.
    """

    resource: str
    task: str
    readings_s: tuple[float, ...] = ()
    calls_per_reading: int = 0
    work: Work | None = None
    median_s: float | None = None
    bytes_per_s: float | None = None
    samples_per_s: float | None = None
    library: str | None = None
    warnings: tuple[Warning, ...] = ()
    skipped: Skipped | None = None
    failed: str | None = None
    way: str | None = None
    bounds: bool = True
    over_bound: Speedup | None = None
    readings_per_process: tuple[int, ...] = ()


@dataclass(frozen=True)
class TaskResult:
    """The results of measuring one task."""

    measurements: tuple[Measurement, ...]
    ceilings: tuple[Ceiling, ...]
    bad_samples: tuple[BadSample, ...]


def why_unfit(found: Iterable[BadSample]) -> str:
    """Why a variant is not made for these samples, with the number of each reason, the most frequent first."""
    reasons = Counter(one.message for one in found).most_common()
    said = [_counted(count, reason) for reason, count in reasons[:MOST_REASONS]]
    left = sum(count for _, count in reasons[MOST_REASONS:])
    return ", ".join([*said, *([f"{left} for other reasons"] if left else [])])


def _counted(count: int, reason: str) -> str:
    """A reason such as "it is PNG" with its number: "2 are PNG"."""
    what = reason.removeprefix("it is ")
    return f"{count:,}: {reason}" if what == reason else f"{count:,} {'is' if count == 1 else 'are'} {what}"


def warnings_of(
    readings_s: Sequence[float], load: Load, codes: Iterable[str], counts: Sequence[int] = ()
) -> tuple[Warning, ...]:
    """The warnings for a figure, from its readings, the host's load during the readings, and the runner's codes.

    `counts` has the number of readings of each process, if there was more than one.
    """
    if not readings_s:
        return ()
    processes = by_process(readings_s, counts)
    spread = _between(processes) if len(processes) > 1 else _within(readings_s)
    return (*_of_the_host(load), *(_OF_THE_CODE[code] for code in sorted(codes)), *spread)


def exceeded(which: str, over: Speedup) -> Warning:
    """The fault of a ceiling that a variant exceeds by more than the interval of the comparison.

    `which` says it in words, such as "faster than the ceiling memory-copy".
    """
    times = f"{over.speedup:.2f}× ({over.low:.2f}–{over.high:.2f})"
    remedy = "the ceiling is at fault, so no share of it is shown"
    return Warning(EXCEEDED, f"{which}, {times}", remedy, over.speedup)


_OF_THE_CODE = {
    "not-cold": Warning(
        "not-cold", "files stayed in the page cache after a drop", "put the data on a file system that drops it"
    ),
    "not-warm": Warning("not-warm", "files were not all in the page cache", "use a smaller --limit, or free memory"),
    "process-lost": Warning(
        "process-lost",
        "its process was killed while it was timed, and another took its place",
        "if the kernel did it (see `dmesg`), free memory",
    ),
    GAP: Warning(
        GAP,
        "its process was stopped, or the machine suspended, in a reading, which was taken again",
        "let the machine run until the end",
    ),
}


def _of_the_host(load: Load) -> Iterable[Warning]:
    wall_s = load.wall_s or 1.0
    foreign, steal = load.foreign_s / wall_s, load.steal_s / wall_s
    if foreign > FOREIGN_LIMIT:
        yield Warning("foreign-load", f"other processes used {percent(foreign)} of a core", "stop them", foreign)
    if steal > STEAL_LIMIT:
        yield Warning(
            "steal", f"the hypervisor withheld {percent(steal)} of a core", "trust speed-ups, not single times", steal
        )
    if load.throttled_s > 0:
        yield Warning("throttled", "the cgroup's CPU quota stopped this process", "raise the quota of the container")


def _within(readings_s: Sequence[float]) -> Iterable[Warning]:
    """The warnings for the readings of one process."""
    found = summarize(readings_s, 1, 1)
    half_width = found.half_width
    if half_width > UNSTABLE_LIMIT:
        needed, wanted = readings_needed(readings_s, UNSTABLE_LIMIT), f"± {percent(UNSTABLE_LIMIT)}"
        remedy = f"about {needed} readings (--rigorous), or a quieter machine, would bring {wanted}"
        if needed > RIGOROUS_READINGS:
            remedy = f"a quieter machine: here it would take about {needed:,} readings to bring {wanted}"
        wide = width(found.median_s, found.low_s, found.high_s)
        yield Warning("unstable", f"{wide} over {len(readings_s)} readings", remedy, half_width)
    if len(readings_s) < FEWEST_READINGS:
        yield Warning("too-few-readings", f"{len(readings_s)} readings", "use --rigorous")


def _between(processes: Sequence[Sequence[float]]) -> Iterable[Warning]:
    """The warning for processes that differ much. It names what would help: processes, readings, or neither."""
    found = [median(one) for one in processes]
    interval = next_run(found)
    half_width = interval.half_width
    if half_width <= UNSTABLE_LIMIT:
        return
    needed, share = processes_needed(found, UNSTABLE_LIMIT), share_of_readings(processes)
    if needed > RIGOROUS_PROCESSES:
        remedy = f"a quieter machine: more processes{'' if share is None else ' or readings'} would not help enough"
    elif share is not None and share > 0.5:
        remedy = f"more readings in each process (--rigorous): they are {percent(share)} of the spread"
    else:
        instead = "" if share is None else ", not more readings,"
        remedy = f"about {needed} processes (--rigorous){instead} would bring ± {percent(UNSTABLE_LIMIT)}"
    wide = width(interval.median, interval.low, interval.high)
    yield Warning("unstable", f"{wide} between {len(processes)} processes", remedy, half_width)
