"""Statistics of readings: which conclusions a set of readings supports. Pure functions of numbers.

A cost is a median with a distribution-free interval. A comparison of two interleaved series cuts them into blocks of
neighbouring pairs, and divides the minima of each block. The minima are used because noise on a shared host only adds
time. Drift that lasts longer than a block slows both series alike and cancels. Every comparison is a speed-up: above 1
is faster.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

CONFIDENCE = 0.95
# With 12 blocks the interval spans the 3rd to the 10th block (96 %), so one or two spoilt blocks cannot widen it.
BLOCKS = 12


@dataclass(frozen=True)
class Interval:
    """The median of some values, and an interval for the true median.

    `confidence` is the coverage that this number of values reaches.
    """

    median: float
    low: float
    high: float
    confidence: float


@dataclass(frozen=True)
class Summary:
    """The cost of one call in seconds. A wide interval says that the machine was busy or that readings were too few."""

    median_s: float
    low_s: float
    high_s: float
    confidence: float
    samples_per_s: float


@dataclass(frozen=True)
class Speedup:
    """How many times as fast one thing is as another: 2 is twice as fast, 0.5 takes twice as long.

    The true speed-up lies between `low` and `high` with `confidence`. `smallest_change` is the smallest relative change
    of speed that these readings could have detected; 0.03 is 3 %. It is the relative distance from the speed-up to the
    farther end of the interval. Raises ValueError if the speed-up or an end of the interval is 0 or less.
    """

    speedup: float
    low: float
    high: float
    confidence: float
    smallest_change: float = field(init=False)

    def __post_init__(self) -> None:
        if not (self.speedup > 0 and self.low > 0 and self.high > 0):
            raise ValueError("a speed-up and both ends of its interval are above 0")
        object.__setattr__(self, "smallest_change", max(self.high / self.speedup, self.speedup / self.low) - 1.0)

    @property
    def told(self) -> bool:
        """Whether the readings support a difference: the interval excludes 1. If not, reports print `~`."""
        return not self.low <= 1.0 <= self.high


def median_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """The median, with an interval between two order statistics that is exact for every distribution.

    The interval from the k-th smallest to the k-th largest of n values misses the true median with probability
    2·P(Binomial(n, ½) < k) (Conover, Practical Nonparametric Statistics, section 3.2). The largest k that keeps
    `confidence` is used. With fewer than 6 values even the full range does not reach 95 %; the `confidence` of the
    result says what it reaches. Raises ValueError if there are no values.
    """
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    count = len(ordered)
    rank, miss = 1, 2 * 0.5**count
    while 2 * (rank + 1) <= count:
        wider = miss + 2 * math.comb(count, rank) * 0.5**count
        if wider > 1 - confidence:
            break
        rank, miss = rank + 1, wider
    return Interval(median(ordered), ordered[rank - 1], ordered[-rank], max(0.0, 1.0 - miss))


def summarize(readings_s: Sequence[float], calls_per_reading: int, samples_per_call: int) -> Summary:
    """The cost of one call in seconds. Each reading is the time of `calls_per_reading` calls."""
    interval = median_interval([reading / calls_per_reading for reading in readings_s])
    per_second = samples_per_call / interval.median if interval.median > 0 else math.inf
    return Summary(interval.median, interval.low, interval.high, interval.confidence, per_second)


def compare(ours: Sequence[float], theirs: Sequence[float], scale: float = 1.0) -> Speedup:
    """The speed-up of `ours` over `theirs`: two interleaved series of readings in seconds. Readings i form pair i.

    The pairs are cut into `BLOCKS` blocks of neighbours; below 24 pairs, each pair is a block. The speed-up of a block
    is `scale * min(theirs) / min(ours)`. `scale` is the work of one of our readings divided by the work of one of
    theirs (calls, samples). The result is the median over blocks, with the interval of `median_interval` (Conover).
    The minima are used because noise only adds time (Chen and Revels, Robust benchmarking in noisy environments, 2016).
    Raises ValueError if the series differ in length, because then they were not interleaved.
    """
    if len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} readings beside {len(theirs)}: they were not interleaved")
    pairs = list(zip(ours, theirs, strict=True))
    blocks = min(len(pairs), BLOCKS) if len(pairs) >= 2 * BLOCKS else len(pairs)
    edges = [round(index * len(pairs) / blocks) for index in range(blocks + 1)]
    found = []
    for begin, end in itertools.pairwise(edges):
        mine, other = zip(*pairs[begin:end], strict=True)
        found.append(scale * min(other) / min(mine))
    interval = median_interval(found)
    return Speedup(interval.median, interval.low, interval.high, interval.confidence)


def readings_needed(readings_s: Sequence[float], precision: float) -> int:
    """About how many readings would narrow the interval of the median to ± `precision` (0.02 is 2 %).

    The width of a median's interval is inversely proportional to the square root of the number of readings.
    """
    interval = median_interval(readings_s)
    half = (interval.high - interval.low) / 2 / interval.median
    return max(len(readings_s), math.ceil(len(readings_s) * (half / precision) ** 2))
