"""Which benchmark of a comparison gets the next round, how long its readings are, and how long all of it takes.

Pure: it knows the rounds that were taken and what they cost, and no process.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from pipebench.compare.permutation import round_times
from pipebench.results.comparison import Outputs, Pair, rounds_needed, wanted_confidence

READING_S = 0.0005  # much longer than a request (20 µs), much shorter than the time slices of a busy host
ROUND_S = 0.25  # for the readings of a round: as long as it takes to start and end its processes on a busy host
LEAST_PAIRS = 6
LONG_S = 1.0  # after so long a round ends also with fewer pairs
FAR = 4.0  # sides that differ in speed by more than this take different numbers of calls for a reading
MOST_SERVERS = 6  # pairs, one after the other
STEADY = 24  # rounds: with fewer, a few extreme ones make an interval far wider than the root of their number says
TO_WIDEST = 3  # rounds for the benchmarks that vary most, for each one that a benchmark gets in turn
LOOKS = 2  # at the outputs of a benchmark: before its rounds and after them
JUDGING = 0.05  # the share of the time that is kept for the judgement at the end
STARTING = 0.2  # the share of the time in which rounds are taken that starts of further servers may take


Reading = tuple[float, float | None]  # seconds, and how many of them it waited for a processor, if that is known


def paired(read: Sequence[tuple[Reading, Reading]], scale: float) -> tuple[tuple[Pair, ...], tuple[Pair, ...] | None]:
    """The pairs of a round, and the same without the time that a side waited for a processor, if all of it is known.

    The head's seconds are multiplied by `scale`.
    """
    pairs = tuple((base, scale * head) for (base, _), (head, _) in read)
    ready = tuple(
        (base - first, scale * (head - second))
        for (base, first), (head, second) in read
        if first is not None and second is not None
    )
    return pairs, ready if len(ready) == len(pairs) else None


@dataclass
class Row:
    """One benchmark while it is being measured."""

    identity: str
    keys: tuple[str, ...] = ()
    samples: int = 0
    head_samples: int = 0
    calls: int = 1  # of a reading of the base; the head's readings are scaled to as many
    head_calls: int = 1
    alone: bool = False  # it runs in one thread and without child processes, on both sides
    armed_s: float = 0.0  # to build it on both sides and call it a few times: about a look at its outputs
    expected_s: float = 0.0  # for a round, before the first
    spent_s: float = 0.0  # in all rounds
    rounds: list[tuple[Pair, ...]] = field(default_factory=list)
    ready: list[tuple[Pair, ...]] = field(default_factory=list)  # as far as known: `rounds` without their waiting
    apart: list[float] = field(default_factory=list)  # for each round |log(head / base)|, in ascending order
    servers: list[int] = field(default_factory=lambda: [0])  # the rounds of each pair of servers
    skipped: str | None = None
    failed: str | None = None
    notes: list[str] = field(default_factory=list)
    taken_again: int = 0  # readings, because a side was stopped in them
    outputs: Outputs | None = None
    left_out: bool = False  # because it does not fit into the budget

    @property
    def live(self) -> bool:
        return self.in_family and not self.left_out

    @property
    def in_family(self) -> bool:
        """Whether its interval is to hold together with the others, if it has one."""
        return self.skipped is None and self.failed is None

    @property
    def width(self) -> float:
        """About how wide its interval is: the range of `apart` without its ends, over the root of their number.

        A tenth is left out at each end: less, and one spoilt round decides; more, and rounds that are far off now and
        then do not count, which make an interval wide. A large change does not matter, because this is a range; its
        direction does not, because `apart` is absolute.
        """
        count = len(self.apart)
        return (self.apart[count * 9 // 10] - self.apart[count // 10]) / math.sqrt(count) if count else math.inf

    @property
    def cost_s(self) -> float:
        """How long its next round is expected to take, with the start of its processes."""
        return self.spent_s / len(self.rounds) if self.rounds else self.expected_s

    def size(self, once_s: Sequence[float], armed_s: float) -> None:
        """Sets the calls of a reading from the seconds of one call on each side.

        The sides take equally many, so that equal code is treated alike. Where one is far faster, each has its own
        number: as many calls as the faster needs would take the slower one for ever.
        """
        wanted = [max(1, round(READING_S / max(one, 1e-9))) for one in once_s]
        if max(once_s) <= FAR * min(once_s):
            wanted = [max(wanted)] * len(wanted)
        self.calls, self.head_calls = wanted
        self.armed_s = armed_s
        pair_s = sum(one * calls for one, calls in zip(once_s, wanted, strict=True))
        self.expected_s = armed_s + max(ROUND_S, pair_s, min(LEAST_PAIRS * pair_s, LONG_S))

    @property
    def judged(self) -> list[tuple[Pair, ...]]:
        """The rounds that are judged: without the time that a side waited for a processor, if all of it is known."""
        return self.ready if self.waits_known else self.rounds

    @property
    def waits_known(self) -> bool:
        return len(self.ready) == len(self.rounds)

    def add(self, pairs: tuple[Pair, ...], ready: tuple[Pair, ...] | None = None) -> None:
        """Adds a round. `ready` are its pairs without the time that a side waited for a processor, if that is known."""
        self.rounds.append(pairs)
        self.servers[-1] += 1
        if ready is not None:
            self.ready.append(ready)
        base, head = round_times(ready or pairs)
        bisect.insort(self.apart, abs(math.log(head / base)))


def renewals(seconds: float, spare_s: float, start_s: float) -> list[float]:
    """When the servers are replaced, in seconds from the first round: at even distances over so many `seconds`.

    A start takes `start_s`, and all of them no more than `STARTING` of the time and than what the rounds can spare.
    """
    more = int(min(STARTING * seconds, spare_s) / start_s) if start_s > 0 else 0
    pairs = 1 + max(0, min(MOST_SERVERS - 1, more))
    return [seconds * share / pairs for share in range(1, pairs)]


class Budget:
    """The time until `limit_s`, on the clock `now`. A benchmark for which it does not suffice is left out.

    So are those after it, because trying them takes time from the others. The first one never is: something is to be
    measured. Without a budget the limit is infinite.
    """

    def __init__(self, limit_s: float, now: Callable[[], float]) -> None:
        self._limit_s, self._now = limit_s, now

    def admits(self, row: Row, before: Sequence[Row]) -> bool:
        """Whether `row` fits beside those `before` it: two looks at its outputs and a round. If not, it is left out."""
        admitted = [one for one in before if one.live]
        needed_s = sum(LOOKS * one.armed_s + one.cost_s for one in [*admitted, row])
        over = any(one.left_out for one in before) or self._now() + needed_s > self._limit_s
        row.left_out = bool(admitted) and over
        return not row.left_out


def whole_s(rows: Sequence[Row], most_rounds: int) -> float:
    """How long it takes to judge all benchmarks; one that was not sized counts as the mean of the others."""
    enough = min(most_rounds, needed(rows))
    known = [(1 + LOOKS) * one.armed_s + enough * one.cost_s for one in rows if one.in_family and one.cost_s]
    return sum(one.in_family for one in rows) * sum(known) / max(1, len(known))


def budget_of(seconds: float) -> int:
    """The budget to give for so many seconds of work: with the share for the judgement, in whole ten seconds."""
    return 10 * math.ceil(seconds / (1 - JUDGING) / 10)


def lacking_s(rows: Sequence[Row], most_rounds: int) -> float:
    """How long the rounds take that are still needed before every benchmark can be judged."""
    enough = min(most_rounds, needed(rows))
    return sum(max(0, enough - len(one.rounds)) * one.cost_s for one in rows if one.live)


def expectation(
    rows: Sequence[Row], seconds: float, may_be_later: bool, most_rounds: int, spent_s: float = 0.0, used_s: float = 0.0
) -> str:
    """What the progress says: how long this takes, and which budget a judgement needs if this is too short.

    `seconds` are for rounds, of which `spent_s` are over; `used_s` of the budget are for all else.
    """
    enough_s = spent_s + lacking_s(rows, most_rounds)
    seconds = max(0.0, seconds)
    minutes = max(1, math.ceil((max(seconds, enough_s) if may_be_later else seconds) / 60))
    some_left_out = any(one.left_out for one in rows)
    if may_be_later or (enough_s <= seconds and not some_left_out):
        return f"comparing for about {minutes} min"
    enough_s = whole_s(rows, most_rounds) if some_left_out else enough_s
    about = f"{minutes} min" if seconds >= 60 else f"{math.floor(seconds)} s"
    return f"comparing for about {about}; a judgement needs --budget {budget_of(used_s + enough_s)}"


def turns(rows: Sequence[Row], most_rounds: int, fits: Callable[[Row], bool] = lambda row: True) -> Iterator[Row]:
    """Yields the benchmark that gets the next round, of those that still fit into the time; ends if none does.

    First each benchmark in turn gets the rounds that a judgement needs, and `STEADY` if there is time. Then each gets
    one round in turn, followed by `TO_WIDEST` times as many for those that vary most. Only numbers of rounds and
    `width` decide. Exchanging base and head in a round leaves both as they are, so the permutation test stays exact.
    """

    def unfinished() -> list[Row]:
        return [one for one in rows if one.live and len(one.rounds) < most_rounds and fits(one)]

    while in_turn := unfinished():
        poor = [one for one in in_turn if len(one.rounds) < max(STEADY, needed(rows))]
        yield from (one for one in poor or in_turn if one in unfinished())
        for _ in range(TO_WIDEST * len(in_turn)) if not poor else ():
            if left := unfinished():
                yield max(left, key=lambda one: one.width)


def needed(rows: Sequence[Row]) -> int:
    """How many rounds each benchmark needs for a judgement."""
    return rounds_needed(wanted_confidence(sum(one.in_family for one in rows)))
