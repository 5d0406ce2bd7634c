"""The results of calibration: how far the figures of `watch` can be trusted on this machine."""

from __future__ import annotations

from dataclasses import dataclass, replace

# The goals:
# - The error of attribution is at most 2 % or 20 µs a sample, whichever is larger.
# - The error of wait and bound is at most 2 %.
# - A span costs at most 1 µs.
# - Watching takes less than 1 % of throughput, with 8 spans in a sample of 1 ms.
# The 2 % are of the row if it takes more than 5 % of an iteration, and of the iteration otherwise.
GOAL_SHARE = 0.02
LARGE_SHARE = 0.05
GOAL_S = 20e-6
GOAL_SPAN_S = 1e-6
GOAL_SLOWDOWN = 0.01
GOAL_SAMPLE_S = 1e-3


@dataclass(frozen=True)
class PlantedFigure:
    """One figure of one planted run: the planted time (`truth_s`) and the time that `watch` reported (`found_s`).

    `per` is "sample" for stages and "iteration" for phases. `error_share` is the error as a share of an iteration.
    `size` is the share of an iteration that the row takes; of the planted and the reported time, the larger counts.
    Both may exceed 1, because several workers share the work. `part` is the tested part: attribution, wait or bound.
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
        """The error as a share of the planted time; None if no time was planted."""
        return self.error_s / self.truth_s if self.truth_s else None

    @property
    def large(self) -> bool:
        """Whether the error is judged against the row's own time. A small row is judged against its iteration."""
        return self.size > LARGE_SHARE


def judged(row: PlantedFigure, iteration_s: float, allowed_s: float = 0.0) -> PlantedFigure:
    """`row` with its shares and its judgement.

    `iteration_s` is the time of an iteration. `allowed_s` is an error that is always within the goal. Both are per
    sample if the row is per sample.
    """
    size = max(row.truth_s, row.found_s) / iteration_s if iteration_s else 0.0
    sized = replace(row, error_share=row.error_s / iteration_s if iteration_s else 0.0, size=size)
    goal = GOAL_SHARE * (row.truth_s if sized.large else iteration_s)
    return replace(sized, within=abs(row.error_s) <= max(allowed_s, goal))


@dataclass(frozen=True)
class Slowdown:
    """The time that `watch` adds to a sample, from a loop that ran alternately with and without `watch`.

    `sample_s` is the time of a sample without `watch`, and `added_s` the added time. `low_s` and `high_s` bound
    `added_s` with a confidence of 95 %. `clock` is wall time or CPU time. The loop has no workers and nothing in it
    waits, so both clocks agree on an idle machine. On a busy machine CPU time is steadier.

    `batches` says which batches were timed: the first ones with the start of the loop, or the later ones. Each of the
    first batches is written to the records at once. `expected_s` is the number of spans times the cost of one span,
    which was measured separately. If it is far below `added_s`, something besides the spans costs time: keeping
    figures for each sample and batch, and writing them.
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
        """The added time as a share of `GOAL_SAMPLE_S`, the length of sample for which the goal is set."""
        return self.added_s / GOAL_SAMPLE_S

    @property
    def told(self) -> bool:
        """Whether the readings show a difference between the plain and the watched loop."""
        return not self.low_s <= 0 <= self.high_s

    @property
    def within(self) -> bool | None:
        """Whether the added time is below the goal; None if the interval contains the goal, so both are possible."""
        goal = GOAL_SLOWDOWN * GOAL_SAMPLE_S
        return None if self.low_s < goal <= self.high_s else self.added_s < goal


@dataclass(frozen=True)
class NoiseFloor:
    """The smallest change that a number of pairs of readings can detect, from readings of equal work.

    `smallest_change` is a median over groups of pairs. `alarms` counts the groups that showed a difference; each of
    them is a false alarm, because the work was equal.
    """

    pairs: int
    smallest_change: float
    groups: int
    alarms: int


@dataclass(frozen=True)
class Calibration:
    """The instrument's own error on this machine. `load` is the machine's one-minute load before and after."""

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
        """The largest error in seconds per sample, and the largest error as a share of an iteration.

        Only rows per sample count for the first, and all rows of the part for the second.
        """
        rows = [row for row in self.rows if row.part == part]
        samples = [abs(row.error_s) for row in rows if row.per == "sample"]
        return max(samples, default=0.0), max((abs(row.error_share) for row in rows), default=0.0)

    def worst_large(self, part: str) -> float:
        """The largest error of a large row, as a share of that row."""
        rows = [row for row in self.rows if row.part == part and row.large]
        return max((abs(row.row_share or 0.0) for row in rows), default=0.0)
