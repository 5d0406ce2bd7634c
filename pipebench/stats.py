"""What a set of readings supports, and what it does not. Pure functions of numbers.

A cost is a median with a distribution-free interval. A comparison of two interleaved series takes the ratio of
minima in blocks of neighbouring pairs: noise on a shared host only ever adds time, and drift that lasts longer than
a block is common to both sides of a ratio and cancels.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

CONFIDENCE = 0.95
BLOCKS = (
    12  # at 12 blocks the interval spans the 3rd to the 10th ratio (96 %): one or two spoilt blocks cannot widen it
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
class Ratio:
    """One cost divided by another: below 1 is faster than what it is compared with, 0.5 is twice as fast."""

    ratio: float
    low: float
    high: float
    confidence: float

    @property
    def told(self) -> bool:
        """Whether the readings support any difference; where they do not, reports print `~`."""
        return not self.low <= 1.0 <= self.high

    @property
    def smallest_change(self) -> float:
        """The smallest relative change that these readings could have told from none, 0.03 being 3 %."""
        return max(self.high / self.ratio, self.ratio / self.low) - 1.0


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


def compare(ours: Sequence[float], theirs: Sequence[float], scale: float = 1.0) -> Ratio:
    """The ratio of two interleaved series of readings, `ours` / `theirs`, reading i beside reading i.

    `scale` multiplies each ratio: the calls per reading of theirs over ours. Pairs are cut into at most `BLOCKS`
    blocks of neighbours (single pairs below 24), the minima of each block are divided, and the interval is that of
    the median block.
    """
    if len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} readings beside {len(theirs)}: they were not interleaved")
    pairs = list(zip(ours, theirs, strict=True))
    blocks = min(len(pairs), BLOCKS) if len(pairs) >= 2 * BLOCKS else len(pairs)
    edges = [round(index * len(pairs) / blocks) for index in range(blocks + 1)]
    ratios = []
    for begin, end in itertools.pairwise(edges):
        mine, other = zip(*pairs[begin:end], strict=True)
        ratios.append(scale * min(mine) / min(other))
    interval = median_interval(ratios)
    return Ratio(interval.median, interval.low, interval.high, interval.confidence)


def readings_needed(readings_s: Sequence[float], precision: float) -> int:
    """About how many readings would bring the interval of the median to ± `precision` (0.02 is 2 %).

    The width of a median's interval falls with the square root of the number of readings.
    """
    interval = median_interval(readings_s)
    half = (interval.high - interval.low) / 2 / interval.median
    return max(len(readings_s), math.ceil(len(readings_s) * (half / precision) ** 2))
