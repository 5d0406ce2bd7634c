"""The usual pipeline of an image, from the rows of the lab: what one core does, and the fastest variants."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pipebench.results.measurement import Measurement

# One way from a file to a batch, as in an ImageNet script. The verdict adds up the costs of these tasks.
PIPELINE = ("read/image", "crop/resized-224", "transform/flip-normalise", "collate/float32")


@dataclass(frozen=True)
class OneCore:
    """Seconds a sample through the usual pipeline, written in the usual way and with the fastest variants.

    `costliest` is the task that takes the largest `share` of the first.
    """

    usual_s: float
    fastest_s: float
    costliest: str
    share: float


def timed(rows: Iterable[Measurement], task_id: str) -> list[Measurement]:
    return [one for one in rows if one.task == task_id and one.summary and one.work and not one.failed]


def per_sample_s(one: Measurement) -> float:
    assert one.summary is not None and one.work is not None
    return one.summary.median_s / one.work.samples


def fastest(rows: Iterable[Measurement], task_id: str) -> Measurement | None:
    """The fastest variant of a task that gives nothing up and agrees on every sample; None if there is none."""
    return min((one for one in timed(rows, task_id) if does_all(one)), key=per_sample_s, default=None)


def ties(rows: Iterable[Measurement], best: Measurement) -> list[Measurement]:
    """The variants without a measurable difference from the fastest, judged by readings taken in the same turns."""
    found = [one for one in timed(rows, best.task) if one is not best and does_all(one) and _beside(one, best)]
    return [one for one in found if not one.over(best).told]


def _beside(one: Measurement, other: Measurement) -> bool:
    """Whether both were read in the same turns, on the same workload. A cold cache is a different workload."""
    return bool(one.readings_s and other.readings_s) and one.workload == other.workload


def does_all(one: Measurement) -> bool:
    """Whether a variant does what the reference does, on every sample that the reference can do."""
    return not one.gives_up and not one.samples_unlike


def reference(rows: Iterable[Measurement], task_id: str) -> list[Measurement]:
    """The reference variant of a task, if it was timed."""
    return [one for one in timed(rows, task_id) if one.over_reference and one.over_reference.speedup == 1.0][:1]


def best(rows: Sequence[Measurement]) -> list[Measurement]:
    """The fastest variant of each task that was timed."""
    found = (fastest(rows, task_id) for task_id in dict.fromkeys(one.task for one in rows))
    return [one for one in found if one is not None]


def gains(rows: Sequence[Measurement]) -> list[Measurement]:
    """The fastest variant of each task, and those that agree on all samples that they are made for, if these are fewer.

    Only rows with a speed-up over their reference. The largest that can be told comes first.
    """
    part = [one for one in rows if one.samples_unfit and one.samples_unfit == one.samples_unlike and not one.gives_up]
    found = [one for one in [*best(rows), *part] if one.over_reference is not None and not one.failed]
    return sorted(found, key=_told, reverse=True)


def _told(one: Measurement) -> float:
    """The speed-up over the reference; 0 if it cannot be told."""
    over = one.over_reference
    return over.speedup if over is not None and over.told else 0.0


def gain(rows: Sequence[Measurement]) -> Measurement | None:
    """The row with the largest measurable gain over its reference; None if no row has one."""
    first = next(iter(gains(rows)), None)
    return first if first is not None and _told(first) > 1 else None


def left_out(rows: Iterable[Measurement]) -> list[Measurement]:
    """The variants that were skipped in tasks of which others were timed: nothing is known of their gain."""
    rows = list(rows)
    measured = {one.task for one in rows if one.summary}
    return [one for one in rows if one.skipped is not None and one.task in measured]


def one_core(rows: Sequence[Measurement]) -> OneCore | None:
    """What one core does through the usual pipeline; None if a task of it has no reference here."""
    usual = [one for task_id in PIPELINE for one in reference(rows, task_id)]
    if len(usual) < len(PIPELINE):
        return None
    total, largest = sum(map(per_sample_s, usual)), max(usual, key=per_sample_s)
    least = sum(per_sample_s(one) for task_id in PIPELINE if (one := fastest(rows, task_id)))
    return OneCore(total, least, largest.task, per_sample_s(largest) / total)
