"""Windows of a training loop, and the throughput over several windows. A window is some iterations in a row."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pipebench.stats import Interval, median_interval


@dataclass(frozen=True)
class Throughput:
    """Samples per second of the training loop over some windows: the median, and an interval for the true median.

    Of `run --engine` it is the geometric mean, and the interval is for that of as many other windows.
    `readings_s` are the seconds of each window, and `samples` is the number of samples that each window trained on.
    """

    readings_s: tuple[float, ...]
    samples: tuple[int, ...]
    samples_per_s: float
    low: float
    high: float
    confidence: float


@dataclass(frozen=True)
class RankBound:
    """One rank's part of the bound of a job: its own samples per second in the windows of all ranks.

    It waited for batches for `wait_s` of a live iteration. The rank that waits longest is the one that the others wait
    for; the shares that all ranks have in the job's rates agree if they have equal batches.
    """

    rank: int
    live_per_s: float
    bound_per_s: float
    wait_s: float


@dataclass
class LoopWindow:
    """Some iterations of the loop in a row: their seconds, their samples, and where the time went.

    `phases` adds up the host's seconds by phase, and `callbacks` those of each callback at each event. A large `wait`
    means that batches were not ready when the loop asked for them.
    """

    elapsed_s: float = 0.0
    samples: int = 0
    iterations: int = 0
    phases: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    callbacks: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))


def throughput(
    windows: Sequence[LoopWindow], middle: Callable[[Sequence[float]], Interval] = median_interval
) -> Throughput:
    rates = middle([one.samples / one.elapsed_s for one in windows])
    return Throughput(
        tuple(one.elapsed_s for one in windows),
        tuple(one.samples for one in windows),
        rates.median,
        rates.low,
        rates.high,
        rates.confidence,
    )
