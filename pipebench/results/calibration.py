"""How far the figures of `watch` can be trusted on this machine: what calibration found."""

from __future__ import annotations

from dataclasses import dataclass

from pipebench.units import percent, seconds

# The goals: attribution to 2 % of an iteration or 20 µs a sample, whichever is larger; wait to 2 %; a span in 1 µs;
# less than 1 % of throughput with 8 spans and 1 ms a sample.
GOAL_SHARE = 0.02
GOAL_S = 20e-6
GOAL_SPAN_S = 1e-6
GOAL_SLOWDOWN = 0.01
GOAL_SAMPLE_S = 1e-3


@dataclass(frozen=True)
class PlantedFigure:
    """One figure of one planted run: what was planted, and what `watch` reported.

    Per sample for stages, per iteration for phases (`per`). `error_share` is the error in parts of an iteration.
    `part` is what was tried: attribution, wait, bound.
    """

    run: str
    name: str
    clock: str
    per: str
    truth_s: float
    found_s: float
    error_share: float
    within: bool
    part: str = "attribution"

    @property
    def error_s(self) -> float:
        return self.found_s - self.truth_s


@dataclass(frozen=True)
class Slowdown:
    """Recording switched on and off by turns inside one run: what a sample takes without, and what it takes more.

    `low_s` and `high_s` bound `added_s` with 95 %. `expected_s` is the number of spans times the cost of one, which was
    measured apart: far below `added_s`, something besides the spans costs time (what is kept per sample and batch).
    """

    sample_s: float
    added_s: float
    low_s: float
    high_s: float
    spans: int
    expected_s: float

    @property
    def share(self) -> float:
        return self.added_s / self.sample_s

    @property
    def of_goal(self) -> float:
        """What is added, in parts of a sample of the length that the goal is about."""
        return self.added_s / GOAL_SAMPLE_S

    @property
    def told(self) -> bool:
        """Whether the readings tell any difference between on and off."""
        return not self.low_s <= 0 <= self.high_s


@dataclass(frozen=True)
class NoiseFloor:
    """What so many pairs of equal readings can tell: the median of `smallest_change` over groups of pairs.

    `alarms` counts the groups that told a difference, where there is none.
    """

    pairs: int
    smallest_change: float
    groups: int
    alarms: int


@dataclass(frozen=True)
class Calibration:
    """The instrument's own error here. `load` is the machine's one-minute load before and after."""

    host: str
    at: str
    load: tuple[float, float]
    cores: float
    took_s: float
    rows: tuple[PlantedFigure, ...]
    span_s: float
    slowdowns: tuple[Slowdown, ...]
    reading_s: float
    noise: tuple[NoiseFloor, ...]

    @property
    def within(self) -> int:
        return sum(row.within for row in self.rows)

    @property
    def slowdown(self) -> Slowdown | None:
        """The one that adds the most, of those whose readings tell that recording adds anything."""
        return max((one for one in self.slowdowns if one.told), key=lambda one: one.added_s, default=None)

    def worst(self, part: str) -> tuple[float, float]:
        """The largest error a sample in seconds, of the rows that are per sample, and in parts of an iteration."""
        rows = [row for row in self.rows if row.part == part]
        samples = [abs(row.error_s) for row in rows if row.per == "sample"]
        return max(samples, default=0.0), max((abs(row.error_share) for row in rows), default=0.0)

    @property
    def foot(self) -> str:
        """The line at the foot of every later report."""
        parts = []
        for part in dict.fromkeys(row.part for row in self.rows):
            sample_s, share = self.worst(part)
            sample = f"{seconds(sample_s)} a sample and " if sample_s else ""
            parts.append(f"{part} is within {sample}{percent(share, 1)} of an iteration")
        parts.append(f"a span costs {seconds(self.span_s)}")
        parts.append(f"{self.within} of {len(self.rows)} figures are within the goal")
        return f"Calibrated here ({self.at[:10]}, load {max(self.load):.1f}): " + "; ".join(parts)
