"""The figures of one report by name: of the lab, of studies, of `ab`, of sync points, of a calibration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median

from pipebench.before_after.estimates import Estimate, of_interval, of_values
from pipebench.results.before_after import Unit
from pipebench.results.calibration import Calibration
from pipebench.results.comparison import Comparison
from pipebench.results.loading import LoaderRow
from pipebench.results.measurement import Measurement
from pipebench.results.report import Report
from pipebench.results.studies import StudyResult
from pipebench.results.sync_points import SyncReport
from pipebench.results.training import Training
from pipebench.stats import by_process

_OVER = "speed-up of head over base"  # of `ab`


@dataclass(frozen=True)
class Figure:
    """One figure: its group and name, its value, and what is known of its error (None: it is shown, and not judged).

    `gated` says that the gate is about it. If it depends on how many `workers` share the caches of the cores, the gate
    is about it where both runs have as many. If it is a cost of so many `samples`, it is judged where both runs have
    about as many.
    """

    group: str
    name: str
    unit: Unit
    value: float
    estimate: Estimate | None = None
    gated: bool = False
    workers: int | None = None
    samples: float | None = None


def of_lab(report: Report) -> Iterator[Figure]:
    """Seconds a sample of each variant, samples per second of the loaders and of training, and the ceilings."""
    for one in report.measurements:
        if one.summary is not None and one.work is not None and one.failed is None:
            yield _timed(one.task, one.variant, one, one.work.samples)
    yield from (_loaded(row) for row in report.loader or () if row.images_per_s)
    yield from _trained(report.training)
    for limit in report.ceilings:
        if limit.samples_per_s and limit.bounds:
            yield Figure("ceilings", f"{limit.resource} ({limit.task})", "per-s", limit.samples_per_s)


def _timed(group: str, name: str, one: Measurement, samples: int) -> Figure:
    each = one.calls_per_reading * samples
    processes = by_process(one.readings_s, one.readings_per_process)
    if len(processes) > 1:
        values = [median(readings) / each for readings in processes]
    else:
        values = [reading / each for reading in one.readings_s]
    assert one.summary is not None
    return Figure(group, name, "s", one.summary.median_s / samples, of_values(values), gated=True)


def _loaded(row: LoaderRow) -> Figure:
    name = f"{row.dataset}, {row.dtype}, {row.workers} workers"
    rates = [images / spent for images, spent in zip(row.images, row.readings_s, strict=False) if images and spent]
    return Figure("loader", name, "per-s", row.images_per_s or 0.0, of_values(rates), gated=True)


def _trained(found: Training | None) -> Iterator[Figure]:
    """Live training, and training whose batches are ready. The gate is about the first."""
    rates = {"live": found.bound.live, "batches ready": found.bound.bound} if found is not None else {}
    for name, rate in rates.items():
        if rate is not None:
            values = [samples / spent for samples, spent in zip(rate.samples, rate.readings_s, strict=False) if spent]
            yield Figure("training", name, "per-s", rate.samples_per_s, of_values(values), gated=name == "live")


def of_studies(report: Report) -> Iterator[Figure]:
    """Seconds a unit of each step, or its count of sync points."""
    return (figure for study in report.studies for figure in _study(study))


def _study(found: StudyResult) -> Iterator[Figure]:
    group = found.study if found.size == "default" else f"{found.study}, {found.size}"
    for row in found.rows:
        if (cost := row.seconds) is not None and cost.median > 0:
            known = of_interval(cost.median, cost.low, cost.high, cost.confidence)
            yield Figure(group, row.name, "s", cost.median, known, gated=True)
        if row.count is not None:
            yield Figure(group, row.name, "count", row.count, gated=True)


def of_ab(report: Report) -> Iterator[Figure]:
    """The speed-up of each benchmark. Its interval holds what differs between two servers, so it needs no floor.

    Where the output changed, the speed-up is one of other work: it has another name, and is not judged.
    """
    found: Comparison | None = report.comparison
    for one in found.changes if found else ():
        if one.judgement is not None and one.changed:
            name = f"{one.benchmark}, changed output"
            yield Figure(_OVER, name, "times", one.judgement.head_over_base.speedup, gated=True)
        elif one.judgement is not None and one.judgement.enough:
            over = one.judgement.head_over_base
            known = of_interval(
                over.speedup, over.low, over.high, over.confidence, runs=one.judgement.rounds, whole=True
            )
            yield Figure(_OVER, one.benchmark, "times", over.speedup, known, gated=True)


def failed(report: Report) -> set[tuple[str, str]]:
    """The rows that were tried and failed, by group and name."""
    rows = {(one.task, one.variant) for one in report.measurements if one.failed is not None}
    changes = report.comparison.changes if report.comparison is not None else ()
    return rows | {(_OVER, one.benchmark) for one in changes if one.failed is not None}


def of_syncs(report: Report) -> Iterator[Figure]:
    """Waiting operations a step: in all, and by file and operations. Lines move, so they are no name."""
    found: SyncReport | None = report.sync_points
    if found is None:
        return
    yield Figure("a step", "all sync points", "count", found.per_step, gated=True)
    counts: dict[str, float] = {}
    for point in found.points:
        name = f"{point.path}: {'; '.join(one.name for one in point.operations)}"
        counts[name] = counts.get(name, 0.0) + point.per_step
    yield from (Figure("a step", name, "count", count) for name, count in counts.items())


def of_calibration(report: Report) -> Iterator[Figure]:
    """What a span costs, how many figures are within the goal, and the worst error of each part."""
    found: Calibration | None = report.calibration
    if found is None:
        return
    yield Figure("instrument", "a span", "s", found.span_s)
    yield Figure("instrument", "figures within the goal", "share", found.within / max(1, len(found.rows)))
    for part in dict.fromkeys(row.part for row in found.rows):
        yield Figure("worst error, of an iteration", part, "share", found.worst(part)[1])
    for one in found.slowdowns:
        yield Figure("added to a sample", f"{one.batches}, {one.clock}", "s", one.added_s)


OF_KIND: dict[str, Callable[[Report], Iterator[Figure]]] = {
    "run": of_lab, "functions": of_lab, "study": of_studies, "ab": of_ab, "syncs": of_syncs,
    "calibrate": of_calibration,
}  # fmt: skip
