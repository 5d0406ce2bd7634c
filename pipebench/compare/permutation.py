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
after the other, and what they draw averages out: of k pairs it is what one draws over the root of k. So an interval has
two halves, one for the rounds and one for the servers, both of the confidence that a benchmark of the family needs. The
two are independent, so the halves add up by their squares. Of normal errors the sum then has that same confidence.

Rounds of several runs can be judged together. A run is a block: its rounds are first divided by the speed of the run
(the lowest quarter of its rounds, base and head together), because one run may have found the machine slower than
another, or timed other numbers of calls. Exchanging base and head within a round does not change this divisor, and a
factor on the head changes it alike in all runs. So the test stays exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import NormalDist, fmean, median
from typing import Any

import numpy as np

from pipebench.results.comparison import (
    ALARMS,
    Judgement,
    Pair,
    left_out,
    reachable,
    rounds_needed,
    wanted_confidence,
)
from pipebench.stats import Speedup

BEST = 0.25  # of the rounds: with 24, two equally likely placements both occur in them, except in one of 100,000 runs
USUAL = 0.8  # share of the rounds that says how far rounds, and the two sides of a round, are apart
SWAPS = 6000  # random exchanges of base and head
LEAST = 5  # of them that may be as large as what is there: with fewer, chance decides how wide an interval is
ALL = 7  # times as many are tried one and all, where there are no more: of few rounds, few exchanges are random enough
KEPT = 4  # times as many as may be as large, before the end of an interval is moved on
CACHED = 16_000  # numbers processed at once, so that they stay in the processor's cache
SERVERS = 0.0065  # how far a pair of servers of equal code is apart in all its rounds, as a standard deviation at most
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
    more than `ALARMS / benchmarks` of the tries. The test is exact for any noise that does not prefer a side. The
    interval is then widened by what the servers may be apart. With fewer than `rounds_needed` rounds it cannot detect
    any change.
    """
    wanted = wanted_confidence(benchmarks)
    base, head = _times(rounds, runs)
    middle = -float(_difference(base, head, _unlike(base, head)))
    apart = _apart(servers or runs or [len(rounds)], wanted)
    low, high = (
        middle + way * math.hypot(_reach(base, head + middle, way * math.log(WIDEST), 1.0 - wanted), apart)
        for way in (-1, 1)
    )
    found = Speedup(math.exp(middle), math.exp(low), math.exp(high), min(wanted, reachable(len(rounds))))
    return Judgement(found, len(rounds), wanted)


def differs(
    rounds: Sequence[Sequence[Pair]], benchmarks: int = 1, runs: Sequence[int] = (), servers: Sequence[int] = ()
) -> bool:
    """Whether `judge` would report a difference; cheaper, because it does not search the ends of the interval."""
    wanted = wanted_confidence(benchmarks)
    base, head = _times(rounds, runs)
    slower = float(_difference(base, head, _unlike(base, head)))
    apart = _apart(servers or runs or [len(rounds)], wanted)
    if len(rounds) < rounds_needed(wanted) or abs(slower) <= apart:
        return False
    nearest = math.sqrt(slower**2 - apart**2)  # half an interval of the rounds that just reaches no difference
    return not _possible(base, head - math.copysign(abs(slower) - nearest, slower), 1.0 - wanted)


def _apart(servers: Sequence[int], wanted: float) -> float:
    """How far the mean of pairs of servers may be off, as a logarithm. Each counts by its number of rounds."""
    sure = NormalDist(sigma=SERVERS).inv_cdf((1 + wanted) / 2)
    return sure * math.sqrt(sum(one**2 for one in servers)) / sum(servers)


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
    wanted = wanted_confidence(benchmarks, alarms)
    if len(rounds) < rounds_needed(wanted):
        return True
    base, head = _times(rounds, runs)
    return _possible(base, head + math.log(speedup), 1.0 - wanted)


def _times(rounds: Sequence[Sequence[Pair]], runs: Sequence[int]) -> Any:
    """The logarithms of the times of base and head, by round. Those of several runs are relative to the run's speed."""
    base, head = np.log(np.array([round_times(pairs) for pairs in rounds])).T
    if len(runs) > 1:
        edges = np.cumsum(runs)[:-1]
        speeds = np.repeat([_level(one) for one in np.split((base + head) / 2, edges)], runs)
        base, head = base - speeds, head - speeds
    return base, head


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
    cut = left_out(count)
    middle = np.sort(head - base, axis=-1)[..., cut : count - cut].mean(axis=-1)
    return middle + unlike / 2 * (_level(head) - _level(base) - middle)


def _level(logarithms: Any) -> Any:
    """The mean of the lowest quarter, along the last axis."""
    count = max(1, round(BEST * logarithms.shape[-1]))
    return np.partition(logarithms, count - 1, axis=-1)[..., :count].mean(axis=-1)


def _as_large(base: Any, head: Any) -> Callable[[Any], Any]:
    """A function that says of exchanges whether the difference is at least the observed one, in either direction.

    An exchange has a sign for each round: -1 where base and head are exchanged. Most cannot be as large, which their
    sums tell at once. No more rounds are further apart than `wide` than are left out at one end. So the middle is that
    of rounds which are at most `wide` apart: those left out above have at least the mean, those below at least -`wide`.
    And the best rounds differ most where one side is the faster of every round.
    """
    unlike, cut, moved = _unlike(base, head), left_out(len(base)), head - base
    there = abs(_difference(base, head, unlike)) - 1e-12
    wide = np.sort(np.abs(moved))[len(base) - 1 - cut]
    best = _level(np.maximum(base, head)) - _level(np.minimum(base, head))
    middle = (there - unlike / 2 * best) / (1 - unlike / 2)
    least = ((len(base) - 2 * cut) * middle - cut * wide) / (1 - cut / len(base))
    clipped, level, half = np.clip(moved, -wide, wide), (base + head) / 2, moved / 2

    def as_large(signs: Any) -> Any:
        can_be = np.flatnonzero(np.abs(signs @ clipped) >= least)
        apart = signs[can_be] * half
        return can_be[np.abs(_difference(level - apart, level + apart, unlike)) >= there]

    return as_large


def _exchanges(rounds: int, chance: float) -> tuple[Iterator[Any], int]:
    """The exchanges, some at a time, and how many of them may be as large as what is there.

    These are at most the share `chance` of all. The first one exchanges nothing: what is there counts, which makes the
    test exact. Exchanging all other rounds gives the same difference, so half of all exchanges stand for all.
    """
    tries, every = max(SWAPS, math.ceil(LEAST / chance)), 2 ** (rounds - 1)
    all_of_them = every <= ALL * tries
    total, size = every if all_of_them else tries, max(1, CACHED // rounds)
    rng = np.random.default_rng(0)

    def some(begin: int) -> Any:
        numbers = np.arange(begin, min(begin + size, total))[:, None]
        if all_of_them:
            return 1.0 - 2.0 * (numbers >> np.arange(rounds) & 1)
        return 1.0 - 2.0 * (rng.integers(0, 2, (len(numbers), rounds), dtype=bool) & (numbers > 0))

    return map(some, range(0, total, size)), math.floor(chance * total)


def _possible(base: Any, head: Any, chance: float) -> bool:
    """Whether more than the share `chance` of the exchanges give a difference as large as the observed one."""
    (exchanges, most), as_large, found = _exchanges(len(base), chance), _as_large(base, head), 0
    for signs in exchanges:
        found += len(as_large(signs))
        if found > most:
            return True
    return False


def _reach(base: Any, head: Any, furthest: float, chance: float) -> float:
    """How far the head's logarithms can be moved towards `furthest` until `_possible` turns False, as a distance.

    Nearly every exchange whose difference is less than the observed one is so further out, too. So each is tried where
    those before it end, and the few that are left are tried again further out. Then all are tried at the place found.
    """
    near, begin = 0.0, math.nan
    while near != begin:
        begin, (exchanges, most) = near, _exchanges(len(base), chance)
        left, as_large = np.empty((0, len(base))), _as_large(base, head + near)
        for signs in exchanges:
            left = np.concatenate([left, signs[as_large(signs)]])
            if len(left) > KEPT * most:
                near, left = _moved(base, head, near, furthest, left, most)
                as_large = _as_large(base, head + near)
        near, _ = _moved(base, head, near, furthest, left, most)
    return abs(near)


def _moved(base: Any, head: Any, near: float, furthest: float, left: Any, most: int) -> tuple[float, Any]:
    """The place after `near` where at most `most` of the exchanges in `left` are as large, and these (bisection)."""
    if len(left) <= most:
        return near, left
    far, there = furthest, left[_as_large(base, head + furthest)(left)]
    if len(there) > most:
        return furthest, there
    for _ in range(STEPS):
        between = (near + far) / 2
        found = left[_as_large(base, head + between)(left)]
        if len(found) > most:
            near, left = between, found
        else:
            far, there = between, found
    return far, there
