"""Statistics of readings: which conclusions a set of readings supports. Pure functions of numbers.

Readings of one process: a cost is a median with a distribution-free interval. A comparison of two interleaved series
cuts them into blocks of neighbouring pairs, and divides the minima of each block. The minima are used because noise on
a shared host only adds time. Drift that lasts longer than a block slows both series alike and cancels.

Readings of several processes: each process gives one value, its cost or its speed-up. The place of a process in memory
moves these for its whole life, so the process is the unit of repetition, and no number of readings within a process
replaces another process. The interval is one for the value of another run of as many processes.

Every comparison is a speed-up: above 1 is faster.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from statistics import NormalDist, fmean, median, stdev, variance

CONFIDENCE = 0.95
# With 12 blocks the interval spans the 3rd to the 10th block (96 %), so one or two spoilt blocks cannot widen it.
BLOCKS = 12
NORMAL = 1.960  # a value that 97.5 % of a standard normal distribution lie below
SPREAD_OF_MEDIAN = NormalDist().inv_cdf(0.75)  # the median of absolute values beside their standard deviation
# Values from which an interval of `next_run` is shown. Of two it reaches nine times their distance to either side
# (Student's t with one degree of freedom): it says nothing, or by chance that there is no error.
LEAST_TOLD = 3
MOST_PROCESSES = 1000  # where a search for a number of processes ends
_MANY = 1000  # degrees of freedom: the normal distribution differs by less than 0.2 %
_LARGEST, _STEPS = 1e6, 50  # the search for a quantile


@dataclass(frozen=True)
class Interval:
    """The median of some values, and an interval for the true median.

    `confidence` is the coverage that this number of values reaches.
    """

    median: float
    low: float
    high: float
    confidence: float

    @property
    def half_width(self) -> float:
        """Half the width of the interval, as a share of the median: 0.02 is ± 2 %."""
        return (self.high - self.low) / 2 / self.median if self.median else 0.0


@dataclass(frozen=True)
class Summary:
    """The cost of one call in seconds. A wide interval says that the machine was busy or that readings were too few.

    Of one process, `median_s` is the median of its readings, and the interval is for the median of this process. Of
    several, it is the geometric mean of their medians, and the interval is for the cost that another run would find.
    """

    median_s: float
    low_s: float
    high_s: float
    confidence: float
    samples_per_s: float

    @property
    def half_width(self) -> float:
        """Half the width of the interval, as a share of the cost: 0.02 is ± 2 %."""
        return Interval(self.median_s, self.low_s, self.high_s, self.confidence).half_width


@dataclass(frozen=True)
class Speedup:
    """How many times as fast one thing is as another: 2 is twice as fast, 0.5 takes twice as long.

    The true speed-up lies between `low` and `high` with `confidence`. If it comes from several processes, it is the
    speed-up that another run of as many processes would find. `smallest_change` is the smallest relative change of
    speed that these readings could have detected; 0.03 is 3 %. It is the relative distance from the speed-up to the
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


def median_interval(values: Sequence[float]) -> Interval:
    """The median, with an interval between two order statistics that is exact for every distribution.

    The interval from the k-th smallest to the k-th largest of n values misses the true median with probability
    2·P(Binomial(n, ½) < k) (Conover, Practical Nonparametric Statistics, section 3.2). The largest k that keeps
    `CONFIDENCE` is used. With fewer than 6 values even the full range does not reach 95 %; the `confidence` of the
    result says what it reaches. Raises ValueError if there are no values.
    """
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    count = len(ordered)
    rank, miss = 1, 2 * 0.5**count
    while 2 * (rank + 1) <= count:
        wider = miss + 2 * math.comb(count, rank) * 0.5**count
        if wider > 1 - CONFIDENCE:
            break
        rank, miss = rank + 1, wider
    return Interval(median(ordered), ordered[rank - 1], ordered[-rank], max(0.0, 1.0 - miss))


def next_run(values: Sequence[float]) -> Interval:
    """The geometric mean of one value of each process, with an interval for the mean that another run would find.

    The logarithms are taken to be normal. Then the means of two runs of n processes differ with a variance of 2·s²/n,
    where s is the standard deviation between processes, and the interval is mean ± t·s·√(2/n), with n - 1 degrees of
    freedom (prediction interval for a future sample mean: Hahn and Meeker, Statistical Intervals, chapter 4). It is √2
    times as wide as the confidence interval for the true mean. What differs between two runs but not between the
    processes of one run, such as another load, is not in it: see `results/earlier_runs.py`. Raises ValueError for
    fewer than 2 values.
    """
    if len(values) < 2:
        raise ValueError("an interval between processes needs 2 of them")
    logarithms = [math.log(value) for value in values]
    middle, half = fmean(logarithms), stdev(logarithms) * width_of(len(values))
    return Interval(math.exp(middle), math.exp(middle - half), math.exp(middle + half), CONFIDENCE)


def width_of(processes: int) -> float:
    """Half the width of `next_run`'s interval in standard deviations: 1.76 for 5 processes, 0.66 for 20."""
    return student(CONFIDENCE, processes - 1) * math.sqrt(2 / processes)


def student(confidence: float, degrees: float) -> float:
    """The half width, in standard errors, of an interval of this confidence by Student's t with `degrees` of freedom.

    Fractions of a degree are left out, which widens it. The distribution is Abramowitz and Stegun, 26.7.3 and 26.7.4.
    """
    if degrees > _MANY:
        return NormalDist().inv_cdf((1 + confidence) / 2)
    return _quantile(confidence, max(1, int(degrees)))


@cache
def _quantile(confidence: float, degrees: int) -> float:
    near, far = 0.0, 1.0
    while _within(far, degrees) < confidence and far < _LARGEST:
        far *= 2
    for _ in range(_STEPS):
        middle = (near + far) / 2
        near, far = (middle, far) if _within(middle, degrees) < confidence else (near, middle)
    return far


def _within(t: float, degrees: int) -> float:
    """The chance that Student's t lies between -t and t."""
    angle = math.atan(t / math.sqrt(degrees))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = degrees % 2
    term, total = (cosine, 0.0) if odd else (1.0, 0.0)
    for step in range(degrees // 2):
        total += term
        lower = 2 * step + 1 + odd
        term *= cosine * cosine * lower / (lower + 1)
    return 2 / math.pi * (angle + sine * total) if odd else sine * total


def processes_needed(values: Sequence[float], precision: float) -> int:
    """About how many processes would narrow the interval of `next_run` to ± `precision` (0.02 is 2 %)."""
    spread = stdev(math.log(value) for value in values)
    counts, enough = range(2, MOST_PROCESSES), math.log1p(precision)
    return max(len(values), 2 + bisect.bisect_left(counts, True, key=lambda count: spread * width_of(count) <= enough))


def share_of_readings(processes: Sequence[Sequence[float]]) -> float | None:
    """The share of the variance between processes that comes from the readings within them, 0 to 1.

    Only this share shrinks with more readings in each process. Each process is halved into its even and its odd
    readings. The variance of the difference of their medians is four times that of the median of all. Processes with
    a single reading are left out. None: there is no other, so the share is unknown.
    """
    apart = [math.log(median(one[::2]) / median(one[1::2])) for one in processes if len(one) > 1]
    between = variance(math.log(median(one)) for one in processes) if len(processes) > 1 else 0.0
    if not apart:
        return None
    return 0.0 if between == 0 else min(1.0, fmean(one * one for one in apart) / 4 / between)


def by_process(readings_s: Sequence[float], counts: Sequence[int] = ()) -> list[Sequence[float]]:
    """The readings of each process. `counts` has the number of readings of each; without it there was one process."""
    edges = [0, *itertools.accumulate(counts)] if counts else [0, len(readings_s)]
    return [readings_s[begin:end] for begin, end in itertools.pairwise(edges) if end > begin]


def summarize(
    readings_s: Sequence[float], calls_per_reading: int, samples_per_call: int, counts: Sequence[int] = ()
) -> Summary:
    """The cost of one call in seconds. Each reading is the time of `calls_per_reading` calls.

    `counts` has the number of readings of each process, if there was more than one.
    """
    processes = by_process(readings_s, counts)
    if len(processes) > 1:
        interval = next_run([median(one) / calls_per_reading for one in processes])
    else:
        interval = median_interval([reading / calls_per_reading for reading in readings_s])
    per_second = samples_per_call / interval.median if interval.median > 0 else math.inf
    return Summary(interval.median, interval.low, interval.high, interval.confidence, per_second)


def compare_processes(
    ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]], scale: float = 1.0
) -> Speedup:
    """The speed-up of `ours` over `theirs`: interleaved readings by process, in the same processes.

    Each process gives the speed-up of `compare`, from the readings that both have; `next_run` makes one of them. With
    one process, it is that of `compare`. Raises ValueError if no process has readings of both.
    """
    found = [compare(*_level(mine, other), scale=scale) for mine, other in zip(ours, theirs, strict=False) if other]
    if len(found) == 1:
        return found[0]
    if not found:
        raise ValueError("no process has readings of both")
    interval = next_run([one.speedup for one in found])
    return Speedup(interval.median, interval.low, interval.high, interval.confidence)


def _level(ours: Sequence[float], theirs: Sequence[float]) -> tuple[Sequence[float], Sequence[float]]:
    """The turns that both have: an interruption can leave one of them with a turn more."""
    both = min(len(ours), len(theirs))
    return ours[:both], theirs[:both]


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
    half = median_interval(readings_s).half_width
    return max(len(readings_s), math.ceil(len(readings_s) * (half / precision) ** 2))
