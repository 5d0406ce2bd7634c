"""What a set of readings supports, and what it does not. Pure functions of numbers.

A cost is a median with a distribution-free interval. A comparison of two interleaved series divides the minima in
blocks of neighbouring pairs: noise on a shared host only ever adds time, and drift that lasts longer than a block slows
both series alike and cancels. Every comparison is a speed-up: above 1 is faster.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

CONFIDENCE = 0.95
BLOCKS = (
    12  # at 12 blocks the interval spans the 3rd to the 10th block (96 %): one or two spoilt blocks cannot widen it
)


@dataclass(frozen=True)
class Interval:
    """The median of some values and where the true median lies, with the coverage that so many values reach."""

    median: float
    low: float
    high: float
    confidence: float


@dataclass(frozen=True)
class Summary:
    """The cost of one call in seconds. A wide interval says that the machine was busy or the readings too few."""

    median_s: float
    low_s: float
    high_s: float
    confidence: float
    samples_per_s: float


@dataclass(frozen=True)
class Speedup:
    """How many times as fast one thing is as another: 2 is twice as fast, 0.5 takes twice as long.

    The true speed-up lies between `low` and `high` with `confidence`. `smallest_change` is the smallest relative change
    of speed that these readings could have detected, 0.03 being 3 %: how far the wider end of the interval lies from
    the speed-up. ValueError where a figure is not above 0.
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
        """Whether the readings support any difference; where they do not, reports print `~`."""
        return not self.low <= 1.0 <= self.high


def median_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """The median with an interval between two order statistics, exact whatever the distribution.

    The interval from the k-th smallest to the k-th largest of n values misses the true median with probability
    2·P(Binomial(n, ½) < k) (Conover, Practical Nonparametric Statistics, section 3.2). The largest k that keeps
    `confidence` is taken; below 6 values not even the full range reaches 95 %, and `confidence` says what it reaches.
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
    """The cost of one call from readings that each timed `calls_per_reading` calls, in seconds."""
    interval = median_interval([reading / calls_per_reading for reading in readings_s])
    per_second = samples_per_call / interval.median if interval.median > 0 else math.inf
    return Summary(interval.median, interval.low, interval.high, interval.confidence, per_second)


def compare(ours: Sequence[float], theirs: Sequence[float], scale: float = 1.0) -> Speedup:
    """The speed-up of `ours` over `theirs`, two interleaved series of readings in seconds, reading i beside reading i.

    Pairs are cut into at most `BLOCKS` blocks of neighbours (single pairs below 24). A block's speed-up is
    `scale * min(theirs) / min(ours)`; `scale` is the work of a reading of ours over that of theirs (calls, samples).
    The result is the median block with the interval of `median_interval` (Conover, as there). Minima, because noise
    only adds time (Chen and Revels, Robust benchmarking in noisy environments, 2016). ValueError where the series
    differ in length: they were not interleaved.
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
    """About how many readings would bring the interval of the median to ± `precision` (0.02 is 2 %).

    The width of a median's interval falls with the square root of the number of readings.
    """
    interval = median_interval(readings_s)
    half = (interval.high - interval.low) / 2 / interval.median
    return max(len(readings_s), math.ceil(len(readings_s) * (half / precision) ** 2))
