"""How much the same figure differs between runs of one machine, and intervals that hold it.

A shared machine drifts over minutes and hours, all processes of a run alike. So the processes of one run cannot show
how far the next run will be; only earlier runs can. Pure functions of reports.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

import msgspec

from pipebench.host.machine import Machine
from pipebench.results.measurement import UNSTABLE_LIMIT, Measurement, Warning
from pipebench.results.report import BetweenRuns, Report
from pipebench.stats import NORMAL, SPREAD_OF_MEDIAN, Speedup, Summary
from pipebench.units import percent

FEWEST_ROWS = 3  # that two runs must have in common
BUSY = (
    0.5  # cores that other processes used: a run beside them finds other figures, and tells nothing about a quiet one
)


@dataclass(frozen=True)
class Figures:
    """The figures of a finished run: seconds a sample and speed-ups by row, and the settings that they belong to."""

    created: str
    settings: str
    costs: dict[str, float]
    speedups: dict[str, float]


def figures(report: Report) -> Figures:
    """What a later run needs of this one.

    `settings` has all that changes figures and is no drift: the workload, the data that was found (a path can lead to
    other images later), the version of pipebench, the machine and its libraries, and whether others kept it busy.
    """
    timed = [(f"{one.task}/{one.variant}", one) for one in report.measurements if one.summary and one.work]
    about = (report.workload, report.data, report.pipebench, report.machine and _machine(report.machine), _busy(report))
    return Figures(
        created=report.created or "",
        settings=msgspec.json.encode(about, order="deterministic").decode(),
        costs={name: one.summary.median_s / one.work.samples for name, one in timed if one.summary and one.work},
        speedups={name: one.over_reference.speedup for name, one in timed if one.over_reference and _open(one)},
    )


def _machine(found: Machine) -> tuple[object, ...]:
    return found.cpu, found.usable_cores, found.storage, found.device, found.python, found.libraries


def _busy(report: Report) -> bool:
    used = [one.load.foreign_s / one.load.wall_s for one in report.measurements if one.load and one.load.wall_s]
    return bool(used) and median(used) > BUSY


def _open(one: Measurement) -> bool:
    """Whether the speed-up is one over another row: a reference beside itself has no interval."""
    return one.over_reference is not None and one.over_reference.low < one.over_reference.high


def between(runs: Sequence[Figures]) -> BetweenRuns | None:
    """How far the next run may be, from runs with equal settings in their order; None if no two can be compared.

    Two successive runs differ, in each row that both have, by the difference of two logarithms. The median of its
    absolute value over the rows, divided by 0.6745, is a standard deviation that a few rows with other code do not
    change. The half width is 1.96 times its median over all pairs of successive runs, so that one run that met
    something else does not spoil all that follow.
    """
    costs, speedups = _apart(runs, lambda one: one.costs), _apart(runs, lambda one: one.speedups)
    if not costs:
        return None
    return BetweenRuns(len(costs) + 1, _half(costs), _half(speedups) if speedups else 0.0)


def _half(spreads: Sequence[float]) -> float:
    return NORMAL * median(spreads)


def _apart(runs: Sequence[Figures], which: Callable[[Figures], Mapping[str, float]]) -> list[float]:
    found = []
    for sooner, later in itertools.pairwise(map(which, runs)):
        rows = [abs(math.log(later[name] / sooner[name])) for name in later if name in sooner]
        if len(rows) >= FEWEST_ROWS:
            found.append(median(rows) / SPREAD_OF_MEDIAN)
    return found


def widened(report: Report, known: BetweenRuns | None) -> Report:
    """The report with intervals that hold how far runs differ; as it is if nothing is known."""
    if known is None:
        return report
    rows = tuple(
        replace(
            one,
            summary=one.summary and _summary(one.summary, known.cost),
            over_reference=one.over_reference and _speedup(one.over_reference, known.speedup),
            over_ceiling=one.over_ceiling and _speedup(one.over_ceiling, known.speedup),
            warnings=tuple(_remedied(warning, known.cost) for warning in one.warnings),
        )
        for one in report.measurements
    )
    return replace(report, measurements=rows, between_runs=known)


def _remedied(warning: Warning, half: float) -> Warning:
    """The warning as it is, unless it advises more readings or processes and the interval comes from earlier runs.

    Then it stays as wide as runs differ, however many readings one of them takes.
    """
    apart = math.sinh(half)
    if warning.code != "unstable" or apart <= max(UNSTABLE_LIMIT, warning.severity):
        return warning
    return replace(
        warning,
        remedy=f"a quieter machine: runs here differ by ± {percent(apart)}, and more processes would not help",
    )


def _summary(found: Summary, half: float) -> Summary:
    low, high = added(found.median_s, found.low_s, found.high_s, half)
    return replace(found, low_s=low, high_s=high)


def _speedup(found: Speedup, half: float) -> Speedup:
    if found.low == found.high:  # a reference beside itself
        return found
    low, high = wider(found.speedup, found.low, found.high, half)
    return Speedup(found.speedup, low, high, found.confidence)


def wider(middle: float, low: float, high: float, half: float) -> tuple[float, float]:
    """The ends of an interval that reaches at least the factor e^`half` to both sides of `middle`."""
    return min(low, middle * math.exp(-half)), max(high, middle * math.exp(half))


def added(middle: float, low: float, high: float, half: float) -> tuple[float, float]:
    """The ends of an interval that another, of e^`half` to both sides, is added to as an independent error.

    For costs. `half` holds the scatter of the processes once more, so on a steady machine the sum is too wide, by √2 at
    most. The larger of the two (`wider`) is too narrow where neither is much larger: docs/figures/repeatability.md.
    """
    below, above = (math.exp(math.hypot(math.log(end / middle), half)) for end in (low, high))
    return middle / below, middle * above
