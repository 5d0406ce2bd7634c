"""What changed over a watched run, and a few of its steps in every detail: short series, whatever its length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class TimesPoint(NamedTuple):
    """Durations around `at_s` seconds after the begin of the run: `number` of them, their percentiles, the longest.

    They come from logarithmic buckets, so each is within 6 %.
    """

    at_s: float
    p50_s: float
    p95_s: float
    most_s: float
    number: int


class MemoryPoint(NamedTuple):
    """One look at a process: resident memory without files and shared memory, in bytes."""

    at_s: float
    own_bytes: int


@dataclass(frozen=True)
class WorkerMemory:
    """The memory of one worker over the run. `loader` and `worker` are its numbers."""

    loader: int
    worker: int
    points: tuple[MemoryPoint, ...]


@dataclass(frozen=True)
class OverTime:
    """Series of one run; an empty one was not recorded. Moments are in seconds after the begin of the script.

    `waits_s` are the waits of neighbouring iterations, in the loop's order, without those of start-up: the begin of the
    longest pass. `waits` (of iterations) and `samples` (the making of one) are percentiles over the run. `memory` is of
    the workers that used most.
    """

    waits_s: tuple[float, ...] = ()
    waits: tuple[TimesPoint, ...] = ()
    samples: tuple[TimesPoint, ...] = ()
    memory: tuple[WorkerMemory, ...] = ()


class TimelineSpan(NamedTuple):
    """What the track with this number did from `begin_s` to `end_s`. `batch` is the number of the batch in its pass.

    `name` is a phase of the loop ("wait", "step", "forward", ...), "batch" (a worker makes it), "pickle" (the feeder
    thread of its queue), "pin", "work" or "idle" (the device).
    """

    track: int
    name: str
    begin_s: float
    end_s: float
    batch: int


@dataclass(frozen=True)
class Timeline:
    """A few steps of the settled part of a run, `steps` of them. Moments are in seconds after the first step's begin.

    `tracks` are the names of the tracks: "worker 0", ..., "pin memory", "loop", "device". A span of the loop can lie
    within another one. `workers` is how many workers the loader has; those that made none of these batches are left
    out.
    """

    steps: int
    workers: int
    tracks: tuple[str, ...]
    spans: tuple[TimelineSpan, ...]
