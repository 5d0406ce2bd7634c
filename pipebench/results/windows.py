"""Some iterations of a training loop in a row, and the throughput over several such windows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from pipebench.stats import Interval, median_interval


@dataclass(frozen=True)
class Throughput:
    """Samples per second of the training loop over some windows: the median, and where the true median lies.

    `readings_s` are the windows' seconds, `samples` how many samples each of them trained on.
    """

    readings_s: tuple[float, ...]
    samples: tuple[int, ...]
    samples_per_s: float
    low: float
    high: float
    confidence: float


@dataclass
class LoopWindow:
    """Some iterations of the loop in a row: how long they took, for how many samples, and where the time went.

    `phases` adds up the host's seconds by phase, `callbacks` those of each callback at each event. A large `wait` says
    that batches were not there when asked for.
    """

    elapsed_s: float = 0.0
    samples: int = 0
    iterations: int = 0
    phases: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    callbacks: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))


def throughput(windows: Sequence[LoopWindow]) -> Throughput:
    rates: Interval = median_interval([one.samples / one.elapsed_s for one in windows])
    return Throughput(
        tuple(one.elapsed_s for one in windows),
        tuple(one.samples for one in windows),
        rates.median,
        rates.low,
        rates.high,
        rates.confidence,
    )
