"""Loaders side by side: what each of them did with one recipe, and who leads. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pipebench.stats import CONFIDENCE, LEAST_TOLD, Interval, Speedup, next_run

Filter = Literal["antialiased", "not antialiased"]
FILTERS: tuple[Filter, ...] = ("antialiased", "not antialiased")
Order = Literal["whole", "buffer", "none"]
Figure = Literal["cpu", "wall"]
LEAST_ROUNDS = 2  # of a rate, so that one odd process is not all there is


@dataclass(frozen=True)
class LoaderPass:
    """One whole pass: from the request of its first batch until its last batch has come and nothing works ahead.

    `cpu_s` is the CPU time of the whole process tree, with what is worked ahead for the next pass. `ahead_s` is the
    part of `wall_s` after the last batch: the time in which a loader fills its queue for the next pass.
    """

    images: int
    wall_s: float
    cpu_s: float
    ahead_s: float = 0.0


@dataclass(frozen=True)
class LoaderRound:
    """What one fresh process measured. `number` is the round: the loaders of one round stand beside each other.

    `first_batch_s` begins where the loader is made (its libraries are imported already). `memory_bytes` is the largest
    proportional memory (PSS) of the process tree that was seen; None if the system does not tell.
    """

    number: int
    passes: tuple[LoaderPass, ...]
    first_batch_s: float
    memory_bytes: int | None = None

    @property
    def cpu_s(self) -> float:
        """Seconds of CPU for an image."""
        return sum(one.cpu_s for one in self.passes) / sum(one.images for one in self.passes)

    @property
    def wall_s(self) -> float:
        """Seconds by the clock for an image."""
        return sum(one.wall_s for one in self.passes) / sum(one.images for one in self.passes)


@dataclass(frozen=True)
class LoaderResult:
    """One loader on one task, with or without antialiasing.

    `does` is what decodes and resizes, `source` the page of its documentation that it is written after, `gives_up`
    what else a user gives up, `resumes` how it goes on in the middle of a pass ("": it cannot). `order` is how far it
    shuffles, as it was seen: the `whole` data set, in a `buffer`, or `none`. `repeats` says whether fresh processes
    with one seed gave the same order (None: there was one). `skipped` says why it did not run, `refused` what of its
    output was wrong; then it has no rounds. `baseline` marks the loop without a loader, which cannot lead.
    """

    name: str
    filter: Filter
    title: str
    does: str
    source: str
    library: str = ""
    gives_up: str = ""
    resumes: str = ""
    baseline: bool = False
    order: Order | None = None
    repeats: bool | None = None
    rounds: tuple[LoaderRound, ...] = ()
    skipped: str | None = None
    refused: str | None = None

    @property
    def measured(self) -> bool:
        return len(self.rounds) >= LEAST_ROUNDS

    def rate(self, figure: Figure) -> Interval:
        """Images per core-second (`cpu`) or per second (`wall`), with an interval for what another run would find.

        Of fewer than `LEAST_TOLD` rounds the interval says nothing: see `told`.
        """
        return next_run([1 / seconds(one, figure) for one in self.rounds])

    @property
    def told(self) -> bool:
        """Whether there are rounds enough for an interval, and so for a difference from another loader."""
        return len(self.rounds) >= LEAST_TOLD

    @property
    def evidence(self) -> dict[str, float]:
        """The rate by CPU, and its interval if there is one."""
        rate = self.rate("cpu")
        ends = {"low": rate.low, "high": rate.high} if self.told else {}
        return {"images_per_core_s": rate.median, **ends}


@dataclass(frozen=True)
class SideBySide:
    """All loaders over the same `images` (of which so many are `different`), in batches, with the same cores."""

    data: str
    images: int
    different: int
    side: int
    batch_size: int
    cores: int
    rounds: int
    results: tuple[LoaderResult, ...] = ()

    def divisors(self) -> Iterator[float]:
        """The figures by which a renderer divides: every run gives positive ones."""
        for row in self.results:
            for one in row.rounds:
                yield sum(found.images for found in one.passes)
                yield sum(found.cpu_s for found in one.passes)
                yield sum(found.wall_s for found in one.passes)

    def of(self, task: Filter) -> list[LoaderResult]:
        """The rows of one task: measured ones first, the fewest seconds of CPU for an image first."""
        rows = [one for one in self.results if one.filter == task]
        return sorted(rows, key=lambda one: (not one.measured, -one.rate("cpu").median if one.measured else 0.0))


@dataclass(frozen=True)
class Lead:
    """Who leads one task by one figure. `level` are loaders from which no difference can be told.

    `behind` is the next one that is slower for certain, and `over` the speed-up over it (None: there is none).
    """

    leader: LoaderResult
    level: tuple[LoaderResult, ...]
    behind: LoaderResult | None
    over: Speedup | None


def seconds(one: LoaderRound, figure: Figure) -> float:
    return one.cpu_s if figure == "cpu" else one.wall_s


def speedup(ours: LoaderResult, theirs: LoaderResult, figure: Figure) -> Speedup | None:
    """How many times as fast `ours` is, from the rounds that both have. None: they share fewer than `LEAST_TOLD`."""
    mine, other = ({one.number: seconds(one, figure) for one in row.rounds} for row in (ours, theirs))
    both = [other[number] / mine[number] for number in mine if number in other]
    if len(both) < LEAST_TOLD:
        return None
    found = next_run(both)
    return Speedup(found.median, found.low, found.high, CONFIDENCE)


def lead(rows: Sequence[LoaderResult], figure: Figure) -> Lead | None:
    """The leader among the measured rows that are loaders; None if fewer than two were measured."""
    able = [one for one in rows if one.measured and not one.baseline]
    if len(able) < 2:
        return None
    first, *others = sorted(able, key=lambda one: -one.rate(figure).median)
    over = {one.name: speedup(first, one, figure) for one in others}
    behind = next((one for one in others if (found := over[one.name]) is not None and found.told), None)
    level = tuple(one for one in others if (found := over[one.name]) is None or not found.told)
    return Lead(first, level, behind, over[behind.name] if behind else None)
