"""The statistics of an A/B comparison: what its rounds support. Pure functions of numbers.

A round is a fresh pair of processes, one for each side, which take short readings in turn. Two readings that follow
each other find the host alike, so a round gives the middle ratio of its pairs: the mean of two medians, one of the
pairs in which the base read first and one of the others. The side that reads first has just read, at the end of the
pair before, and finds its own data in the caches. So it can be faster by a tenth, and one median of all pairs would
lie anywhere between the two kinds. What a process draws once, such as its place in memory, can change its speed by more
than 10 % for its whole life. More readings within a pair cannot show this, so the unit of repetition is the round.

The estimate has two parts. The first is the middle of the rounds' ratios: what slows a whole round slows both sides, so
it cancels. This holds for the place in memory too, as long as both sides do the same with the same place. The second
part is for sides that do not. It compares the fastest quarter of each side's rounds: both sides draw many times, and
their best draws can be compared. It counts as much as the first where the two sides of a round differ as much as two
rounds do, and less the more alike the sides of a round are.

Many rounds come from one pair of servers, which import once. What is constant for a server, and not for a commit, is in
all its rounds, and no exchange of rounds shows it: see docs/figures/noise.md. A run has several pairs of servers, one
after the other, and what they draw averages out. `SERVERS` is how far the rounds of one pair may be off, with the
confidence of a family of six; of k pairs it is that over the root of k. It is independent of the rounds, so the two
halves of an interval add up by their squares.

Rounds of several runs can be judged together. A run is a block: its rounds are first divided by the speed of the run
(the lowest quarter of its rounds, base and head together), because one run may have found the machine slower than
another, or timed other numbers of calls. Exchanging base and head within a round does not change this divisor, and a
factor on the head changes it alike in all runs. So the test stays exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median
from typing import Any

import numpy as np

from pipebench.results.comparison import ALARMS, Judgement, Pair, rounds_needed, wanted_confidence
from pipebench.stats import Speedup

BEST = 0.25  # of the rounds: with 24, two equally likely placements both occur in them, except in one of 100,000 runs
MIDDLE = 0.6  # share of the rounds' speed-ups that counts: as many are left out above as below
USUAL = 0.8  # share of the rounds that says how far rounds, and the two sides of a round, are apart
SWAPS = 6000  # random exchanges of base and head
CACHED = 50_000  # numbers processed at once, so that they stay in the processor's cache
SERVERS = 0.02  # how far one pair of servers of equal code may be apart, in all its rounds alike
WIDEST, STEPS = 8.0, 14  # the search for the ends of an interval: up to this factor away, to 0.02 %


def round_times(pairs: Sequence[Pair]) -> Pair:
    """A time for each side of a round. Their ratio is the middle ratio of its pairs, their product the middle product.

    Exchanging the sides of all pairs exchanges the two times.
    """
    if not pairs:
        raise ValueError("a round without readings")
    logarithms = [(math.log(base), math.log(head)) for base, head in pairs]
    level = _middle([(base + head) / 2 for base, head in logarithms])
    half = _middle([(head - base) / 2 for base, head in logarithms])
    return math.exp(level - half), math.exp(level + half)


def _middle(values: Sequence[float]) -> float:
    """The mean of two medians: of the values at even and of those at odd places."""
    return fmean(median(kind) for kind in (values[::2], values[1::2]) if kind)


def judge(
    rounds: Sequence[Sequence[Pair]], benchmarks: int = 1, runs: Sequence[int] = (), servers: Sequence[int] = ()
) -> Judgement:
    """The speed-up of head over base, with the interval that a family of `benchmarks` comparisons needs.

    `runs` has the number of rounds of each run, in the order of `rounds`, where more than one run is judged. `servers`
    has the number of rounds of each pair of servers; without it, each run had one pair.

    The interval comes from an inverted permutation test of paired data (Lehmann and Romano, Testing Statistical
    Hypotheses, sections 5.8 and 5.14). It holds every factor f for which this is true: after the head's times are
    multiplied by f, exchanging base and head at random within rounds gives a difference as large as the observed one in
    more than `ALARMS / benchmarks` of `SWAPS` tries. The test is exact for any noise that does not prefer a side. The
    interval is then widened by what the servers may be apart. With fewer than `rounds_needed` rounds it cannot detect
    any change.
    """
    wanted = wanted_confidence(benchmarks)
    base, head, swaps = _times_and_swaps(rounds, runs)
    middle = float(np.exp(-_difference(base, head, _unlike(base, head))))

    def possible(factor: float) -> bool:
        return _chance(base, head + math.log(factor), swaps) > 1.0 - wanted

    reached = 1.0 - min(1.0, 2.0 * 0.5 ** len(base))
    low, high = _end(possible, middle, 1 / WIDEST), _end(possible, middle, WIDEST)
    apart = _apart(servers or runs or [len(rounds)])
    low = middle * math.exp(-math.hypot(math.log(low / middle), apart))
    high = middle * math.exp(math.hypot(math.log(high / middle), apart))
    return Judgement(Speedup(middle, low, high, min(wanted, reached)), len(rounds), wanted)


def differs(
    rounds: Sequence[Sequence[Pair]], benchmarks: int = 1, runs: Sequence[int] = (), servers: Sequence[int] = ()
) -> bool:
    """Whether `judge` would report a difference; cheaper, because it does not search the ends of the interval."""
    wanted = wanted_confidence(benchmarks)
    base, head, swaps = _times_and_swaps(rounds, runs)
    slower, apart = float(_difference(base, head, _unlike(base, head))), _apart(servers or runs or [len(rounds)])
    if len(rounds) < rounds_needed(wanted) or abs(slower) <= apart:
        return False
    nearest = math.sqrt(slower**2 - apart**2)  # half an interval of the rounds that just reaches no difference
    return _chance(base, head - math.copysign(abs(slower) - nearest, slower), swaps) <= 1.0 - wanted


def _apart(servers: Sequence[int]) -> float:
    """How far the mean of pairs of servers may be off, as a logarithm. Each counts by its number of rounds."""
    return math.log(1 + SERVERS) * math.sqrt(sum(one**2 for one in servers)) / sum(servers)


def holds(
    rounds: Sequence[Sequence[Pair]],
    speedup: float,
    benchmarks: int = 1,
    alarms: float = ALARMS,
    runs: Sequence[int] = (),
) -> bool:
    """Whether the rounds allow this speed-up between their servers: the test that `judge` inverts.

    Too few rounds allow any.
    """
    if len(rounds) < rounds_needed(wanted_confidence(benchmarks, alarms)):
        return True
    base, head, swaps = _times_and_swaps(rounds, runs)
    return _chance(base, head + math.log(speedup), swaps) > 1.0 - wanted_confidence(benchmarks, alarms)


def _times_and_swaps(rounds: Sequence[Sequence[Pair]], runs: Sequence[int]) -> Any:
    """The logarithms of the times of base and head, by round, and for each try the rounds that it exchanges.

    Those of several runs are relative to the speed of their run.
    """
    base, head = np.log(np.array([round_times(pairs) for pairs in rounds])).T
    if len(runs) > 1:
        edges = np.cumsum(runs)[:-1]
        speeds = np.repeat([_level(one) for one in np.split((base + head) / 2, edges)], runs)
        base, head = base - speeds, head - speeds
    return base, head, np.random.default_rng(0).random((SWAPS, len(base))) < 0.5


def _unlike(base: Any, head: Any) -> float:
    """How far the sides of a round are apart, compared with two rounds, from 0 to 1.

    It is near 1 if sides and rounds vary independently, and near 0 if the sides of a round vary together. Exchanging
    base and head in rounds does not change it.
    """
    level = (base + head) / 2
    sides, rounds = _usual(np.abs(head - base)), _usual(np.abs(level - np.median(level)))
    return min(1.0, (sides / (2 * rounds)) ** 2) if rounds else 1.0


def _usual(sizes: Any) -> float:
    """The mean without the largest fifth."""
    return float(np.sort(sizes)[: max(1, round(USUAL * len(sizes)))].mean())


def _difference(base: Any, head: Any, unlike: float) -> Any:
    """The head's logarithms minus the base's, along the last axis: the weighted mean of two estimates.

    One compares the best rounds of each side; the other takes the middle of the differences within rounds.
    """
    count = base.shape[-1]
    cut = round((1 - MIDDLE) / 2 * count)
    middle = np.partition(head - base, (cut, count - cut - 1), axis=-1)[..., cut : count - cut].mean(axis=-1)
    return middle + unlike / 2 * (_level(head) - _level(base) - middle)


def _level(logarithms: Any) -> Any:
    """The mean of the lowest quarter, along the last axis."""
    count = max(1, round(BEST * logarithms.shape[-1]))
    return np.partition(logarithms, count - 1, axis=-1)[..., :count].mean(axis=-1)


def _chance(base: Any, head: Any, swaps: Any) -> float:
    """The share of exchanges whose difference is at least the observed one; the observed one counts as an exchange."""
    unlike = _unlike(base, head)
    there = abs(_difference(base, head, unlike))
    as_large = 0
    for few in np.array_split(swaps, max(1, swaps.size // CACHED)):
        made = np.abs(_difference(np.where(few, head, base), np.where(few, base, head), unlike))
        as_large += int(np.count_nonzero(made >= there - 1e-12))
    return float((1 + as_large) / (1 + len(swaps)))


def _end(possible: Any, middle: float, away: float) -> float:
    """An end of the interval: the factor from `middle` to `middle * away` where `possible` turns False (bisection)."""
    near, far = 0.0, math.log(away)
    if possible(middle * away):
        return middle * away
    for _ in range(STEPS):
        between = (near + far) / 2
        near, far = (between, far) if possible(middle * math.exp(between)) else (near, between)
    return middle * math.exp(near)
