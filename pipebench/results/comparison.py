"""What comparing two commits gives: for each benchmark its rounds, and what they support."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pipebench.stats import Ratio

ALARMS = 0.01  # chance that any benchmark of a family is called changed where none is
Pair = tuple[float, float]  # seconds of the base and of the head, taken one right after the other


@dataclass(frozen=True)
class Judgement:
    """What the rounds of one benchmark say: how much slower the head is, and whether they can tell.

    `ratio` is head / base: 1.03 is 3 % slower. `wanted` is the confidence that the family of benchmarks asks of each.
    """

    ratio: Ratio
    rounds: int
    wanted: float

    @property
    def enough(self) -> bool:
        """Whether so many rounds can reach the wanted confidence at all."""
        return self.ratio.confidence >= self.wanted

    @property
    def told(self) -> bool:
        """Whether the rounds support any difference; where they do not, the table prints `~`."""
        return self.enough and self.ratio.told

    def exceeds(self, limit: float) -> bool:
        """Whether even the lower end of the interval is more than `limit` slower, 0.05 being 5 %."""
        return self.told and self.ratio.low > 1.0 + limit


@dataclass(frozen=True)
class Change:
    """One benchmark on both sides: all readings of all rounds, and what they say; or why there is nothing to say."""

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


def wanted_confidence(benchmarks: int, alarms: float = ALARMS) -> float:
    """The confidence each of `benchmarks` comparisons needs so that all together raise a false alarm with `alarms`.

    Bonferroni's inequality: the chances of the single alarms add up to at most `alarms`, however they depend.
    """
    return 1.0 - alarms / max(1, benchmarks)


def rounds_needed(confidence: float) -> int:
    """The fewest rounds whose full range covers the median with `confidence`: 2·0.5^n ≤ 1 - confidence."""
    return math.ceil(1 - math.log2(1 - confidence))


def too_few(changes: Sequence[Change]) -> str | None:
    """Why nothing could be told of some benchmarks, where the budget was too small for enough rounds."""
    poor = [one for one in changes if one.judgement and not one.judgement.enough]
    if not poor:
        return None
    needed = rounds_needed(wanted_confidence(sum(1 for one in changes if one.judgement), ALARMS))
    return f"{len(poor)} benchmarks had fewer than the {needed} rounds they need: raise --budget, or name a --stage"
