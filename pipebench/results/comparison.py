"""The results of comparing two commits: the rounds of each benchmark, and the speed-up that they support."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pipebench.stats import Speedup

ALARMS = 0.01  # chance that any benchmark of a family is called changed although all are equal
Pair = tuple[float, float]  # seconds of the base and of the head, taken one right after the other


@dataclass(frozen=True)
class Judgement:
    """The speed-up of the head over the base for one benchmark, and whether its rounds suffice to judge it.

    A speed-up of 0.97 is 3 % slower. `wanted` is the confidence that each benchmark of the family needs.
    """

    head_over_base: Speedup
    rounds: int
    wanted: float

    @property
    def enough(self) -> bool:
        """Whether this number of rounds can reach the wanted confidence."""
        return self.head_over_base.confidence >= self.wanted

    @property
    def told(self) -> bool:
        """Whether the rounds support a difference. If not, the table prints `~`."""
        return self.enough and self.head_over_base.told

    def exceeds(self, limit: float) -> bool:
        """Whether the whole interval is more than `limit` slower. A limit of 0.05 means over 1.05 times as long."""
        return self.told and self.head_over_base.high < 1.0 / (1.0 + limit)


@dataclass(frozen=True)
class Change:
    """One benchmark on both sides: all readings of all rounds and their judgement, or why there is none."""

    benchmark: str
    judgement: Judgement | None = None
    base_s: float | None = None  # of one call, the minimum of all rounds
    head_s: float | None = None
    samples_per_call: int = 0
    rounds: tuple[tuple[Pair, ...], ...] = ()
    calls_per_reading: int = 0
    skipped: str | None = None
    failed: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Measured:
    """What one side of a comparison ran: a commit with the hash of its files, where they lay, and the interpreter.

    `commit` and `tree` are None for the working tree. `roots` are the folders on the import path.
    """

    label: str
    commit: str | None
    tree: str | None
    roots: tuple[str, ...]
    python: str


@dataclass(frozen=True)
class Comparison:
    """Two commits, or two settings of one commit, measured against each other.

    `fail_above` is the gate that the user asked for. With 0.05, a benchmark fails the gate if its whole interval is
    more than 5 % slower.
    """

    base: str
    head: str
    changes: tuple[Change, ...]
    fail_above: float | None = None
    sides: tuple[Measured, ...] = ()


def wanted_confidence(benchmarks: int, alarms: float = ALARMS) -> float:
    """The confidence that each of `benchmarks` comparisons needs.

    With it, the chance of any false alarm among all of them is at most `alarms`. This is Bonferroni's inequality: the
    chances of the single alarms add up to `alarms`, and it holds however the alarms depend on each other.
    """
    return 1.0 - alarms / max(1, benchmarks)


def rounds_needed(confidence: float) -> int:
    """The smallest number n of rounds whose full range covers the median with `confidence`.

    It is the smallest n with 2·0.5^n ≤ 1 - confidence.
    """
    return math.ceil(1 - math.log2(1 - confidence))


def unjudged(changes: Sequence[Change]) -> tuple[int, int]:
    """How many benchmarks had too few rounds to be judged, and how many rounds each benchmark needs."""
    judged = [one.judgement for one in changes if one.judgement]
    return sum(not one.enough for one in judged), rounds_needed(wanted_confidence(len(judged), ALARMS))
