"""How far the figures of `watch` can be trusted on this machine: what calibration found."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pipebench.units import percent, seconds

# The goals: attribution to 2 % or 20 µs a sample, whichever is larger; wait and bound to 2 %; a span in 1 µs; less than
# 1 % of throughput with 8 spans and 1 ms a sample. 2 % is of the row where it takes more than 5 % of an iteration, and
# of the iteration where it takes less.
GOAL_SHARE = 0.02
LARGE_SHARE = 0.05
GOAL_S = 20e-6
GOAL_SPAN_S = 1e-6
GOAL_SLOWDOWN = 0.01
GOAL_SAMPLE_S = 1e-3


@dataclass(frozen=True)
class PlantedFigure:
    """One figure of one planted run: what was planted, and what `watch` reported.

    Per sample for stages, per iteration for phases (`per`). `error_share` is the error in parts of an iteration, and
    `size` is how much of an iteration the row takes (planted or shown, the larger); both may exceed 1 where workers
    share the work. `part` is what was tried: attribution, wait, bound.
    """

    run: str
    name: str
    clock: str
    per: str
    truth_s: float
    found_s: float
    error_share: float = 0.0
    within: bool = False
    part: str = "attribution"
    size: float = 0.0

    @property
    def error_s(self) -> float:
        return self.found_s - self.truth_s

    @property
    def row_share(self) -> float | None:
        """The error in parts of what was planted; None where nothing was."""
        return self.error_s / self.truth_s if self.truth_s else None

    @property
    def large(self) -> bool:
        """Whether the row is judged by its own size. The error of a small one matters to its iteration alone."""
        return self.size > LARGE_SHARE


def judged(row: PlantedFigure, iteration_s: float, allowed_s: float = 0.0) -> PlantedFigure:
    """`row` with its shares and its judgement.

    `iteration_s` is what an iteration takes, and `allowed_s` an error that is always within the goal; both are per
    sample where the row is.
    """
    size = max(row.truth_s, row.found_s) / iteration_s if iteration_s else 0.0
    sized = replace(row, error_share=row.error_s / iteration_s if iteration_s else 0.0, size=size)
    goal = GOAL_SHARE * (row.truth_s if sized.large else iteration_s)
    return replace(sized, within=abs(row.error_s) <= max(allowed_s, goal))


@dataclass(frozen=True)
class Slowdown:
    """A loop plainly and under `watch`, in turns: what a sample takes, and what being watched adds to it.

    By wall time and by CPU time (`clock`): the loop has no workers and nothing in it waits, so on an idle machine both
    say the same; on a busy one CPU time is the steadier. `batches` says which batches: the first ones, each of which is
    written to the records at once, with the start of the loop; or the later ones. `low_s` and `high_s` bound `added_s`
    with 95 %. `expected_s` is the number of spans times the cost of one, which was measured apart: far below `added_s`,
    something besides the spans costs time (what is kept per sample and batch, and writing it).
    """

    sample_s: float
    added_s: float
    low_s: float
    high_s: float
    spans: int
    expected_s: float
    batches: str
    clock: str

    @property
    def share(self) -> float:
        return self.added_s / self.sample_s

    @property
    def of_goal(self) -> float:
        """What is added, in parts of a sample of the length that the goal is about."""
        return self.added_s / GOAL_SAMPLE_S

    @property
    def told(self) -> bool:
        """Whether the readings tell any difference between plain and watched."""
        return not self.low_s <= 0 <= self.high_s

    @property
    def within(self) -> bool | None:
        """Whether less than the goal is added; None where the readings cannot tell, because the interval has both."""
        goal = GOAL_SLOWDOWN * GOAL_SAMPLE_S
        return None if self.low_s < goal <= self.high_s else self.added_s < goal


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

    def worst(self, part: str) -> tuple[float, float]:
        """The largest error a sample in seconds, of the rows that are per sample, and in parts of an iteration."""
        rows = [row for row in self.rows if row.part == part]
        samples = [abs(row.error_s) for row in rows if row.per == "sample"]
        return max(samples, default=0.0), max((abs(row.error_share) for row in rows), default=0.0)

    def worst_large(self, part: str) -> float:
        """The largest error of a large row, in parts of that row."""
        rows = [row for row in self.rows if row.part == part and row.large]
        return max((abs(row.row_share or 0.0) for row in rows), default=0.0)

    @property
    def foot(self) -> str:
        """The line at the foot of every later report."""
        parts = []
        for part in dict.fromkeys(row.part for row in self.rows):
            sample_s, share = self.worst(part)
            sample = f"{seconds(sample_s)} a sample and " if sample_s else ""
            large = self.worst_large(part)
            own = (
                f" (and, for each row above {percent(LARGE_SHARE, 0)} of one, {percent(large, 1)} of it)"
                if large
                else ""
            )
            parts.append(f"{part} is within {sample}{percent(share, 1)} of an iteration{own}")
        parts.append(f"a span costs {seconds(self.span_s)}")
        parts.append(f"{self.within} of {len(self.rows)} figures are within the goal")
        return f"Calibrated here ({self.at[:10]}, load {max(self.load):.1f}): " + "; ".join(parts)
