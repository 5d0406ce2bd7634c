"""The results of `run --engine`: the reference pipeline under another engine, beside a DataLoader and ready batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Literal

from pipebench.results.measurement import Warning
from pipebench.results.windows import Throughput
from pipebench.stats import LEAST_TOLD, Interval, Speedup, median_interval, next_run

Source = Literal["ready", "torch", "ray"]
Order = Literal["kept", "given up"]


@dataclass(frozen=True)
class Node:
    """A machine, or a process that stands for one, of the cluster: its cores, and whether the training loop runs there.

    `lost` says that it was there during the run and had gone at its end.
    """

    cores: float
    trainer: bool = False
    lost: bool = False


@dataclass(frozen=True)
class Arm:
    """The training loop with batches from one source, in windows that take turns with those of the other sources.

    `wait_shares` has the share of each window that the loop waited for a batch. `cpu_s` has the CPU seconds of the
    process tree on this machine in each window; () if other machines had a part in it. `start_s` has the seconds from
    the start of each pass to its first batch.
    """

    source: Source
    throughput: Throughput
    wait_shares: tuple[float, ...]
    cpu_s: tuple[float, ...] = ()
    start_s: tuple[float, ...] = ()

    @property
    def wait_share(self) -> float:
        """The share of all windows together that the loop waited."""
        spent = self.throughput.readings_s
        waited = sum(share * one for share, one in zip(self.wait_shares, spent, strict=True))
        return waited / sum(spent)

    @property
    def own_s(self) -> float:
        """Seconds of an image in which the loop did not wait: those of its own work."""
        return sum(self.throughput.readings_s) * (1 - self.wait_share) / sum(self.throughput.samples)

    @property
    def costs_s(self) -> list[float]:
        """Seconds a sample, by window."""
        found = self.throughput
        return [spent / samples for spent, samples in zip(found.readings_s, found.samples, strict=True)]

    @property
    def core_s(self) -> float | None:
        """CPU seconds a sample; None: not known."""
        if not self.cpu_s:
            return None
        return median(spent / samples for spent, samples in zip(self.cpu_s, self.throughput.samples, strict=True))


@dataclass(frozen=True)
class Operator:
    """What Ray's own statistics say about one operator, summed over the timed passes: seconds of all its tasks.

    None: this release does not tell. `rows` and `made_bytes` are what it put out; rows that were made twice are in it.
    """

    name: str
    rows: int
    wall_s: float | None = None
    cpu_s: float | None = None
    made_bytes: float | None = None


@dataclass(frozen=True)
class StageCost:
    """What one stage took inside the engine's workers by our own clock: mean seconds a sample."""

    name: str
    s: float


@dataclass(frozen=True)
class Blocked:
    """The seconds in which the training loop waited for the engine in the timed passes: by its count, and by ours."""

    engine_s: float
    ours_s: float


@dataclass(frozen=True)
class Outputs:
    """What was checked of the batches: every place of every pass came once, and pixels are those of our own samples.

    `passes` are those that were looked at, of `samples` in all, and `compared` samples were made again here.
    `different` is the largest difference of a value of them.
    """

    passes: int
    samples: int
    compared: int
    different: float
    order: Order


@dataclass(frozen=True)
class EngineRun:
    """The reference pipeline under an engine, in turns with a DataLoader of so many workers and with ready batches.

    `cores` are those that the engine may use, of all nodes. `local` says that the cluster is of this command. `init_s`
    is the time until it answered, `first_s` that of the first batch, with the imports of its workers. `operators` are
    its own statistics and `stages` ours, for the same samples; `whole_s` is our clock around the whole function, per
    sample. `spilled_bytes` is what went from memory to disk. `notes` say what could not be read, and `warnings` what
    disturbed the run (on a cluster, where others have a part in it, nothing is known of that).
    """

    library: str
    data: str
    consumer: str
    batch_size: int
    workers: int
    cores: float
    local: bool
    nodes: tuple[Node, ...]
    arms: tuple[Arm, ...]
    init_s: float = 0.0
    first_s: float = 0.0
    operators: tuple[Operator, ...] = ()
    stages: tuple[StageCost, ...] = ()
    whole_s: float | None = None
    blocked: Blocked | None = None
    outputs: Outputs | None = None
    spilled_bytes: float = 0.0
    samples_failed: int = 0
    notes: tuple[str, ...] = ()
    warnings: tuple[Warning, ...] = ()

    @property
    def lost(self) -> int:
        """How many nodes were lost."""
        return sum(one.lost for one in self.nodes)

    def arm(self, source: Source) -> Arm | None:
        return next((one for one in self.arms if one.source == source), None)

    @property
    def over_torch(self) -> Speedup | None:
        """The speed-up of the engine's loop over the loop with the DataLoader. None: not measured."""
        return self._over("torch")

    @property
    def bound(self) -> Speedup | None:
        """The speed-up of the loop with ready batches over the engine's: the most that faster loading could bring."""
        found = self._over("ready")
        return None if found is None else Speedup(1 / found.speedup, 1 / found.high, 1 / found.low, found.confidence)

    def _over(self, source: Source) -> Speedup | None:
        ours, other = self.arm("ray"), self.arm(source)
        if ours is None or other is None:
            return None
        ratios = [their / mine for mine, their in zip(ours.costs_s, other.costs_s, strict=False)]
        if len(ratios) < LEAST_TOLD:
            return None
        found = middle(ratios)
        return Speedup(found.median, found.low, found.high, found.confidence)

    @property
    def code(self) -> Literal["faster", "slower", "no-difference", "not-measured"]:
        """Whether the loop is faster with the engine than with the DataLoader."""
        found = self.over_torch
        if found is None:
            return "not-measured"
        return "no-difference" if not found.told else "faster" if found.speedup > 1 else "slower"

    @property
    def evidence(self) -> dict[str, str | int | float | bool | tuple[str, ...] | None]:
        """The figures behind `code`, in base units."""
        found, bound, ours = self.over_torch, self.bound, self.arm("ray")
        told = {"speedup": found.speedup, "low": found.low, "high": found.high} if found else {}
        most = {"bound_speedup": bound.speedup, "bound_low": bound.low, "bound_high": bound.high} if bound else {}
        of_engine = {"images_per_s": ours.throughput.samples_per_s, "wait_share": ours.wait_share} if ours else {}
        return {"library": self.library, "cores": self.cores, "nodes_lost": self.lost, **told, **most, **of_engine}

    def divisors(self) -> Iterator[float]:
        """Figures that are above 0 in every run."""
        yield self.batch_size
        for one in self.arms:
            rates: Sequence[float] = one.throughput.readings_s
            yield from (len(rates), len(one.wait_shares), one.throughput.samples_per_s, *rates, *one.throughput.samples)
            yield 1.0 if len(rates) == len(one.throughput.samples) == len(one.wait_shares) else 0.0
            yield 1.0 if len(one.cpu_s) in (0, len(rates)) else 0.0
        yield from (1.0 if one.rows >= 0 else 0.0 for one in self.operators)


def middle(values: Sequence[float]) -> Interval:
    """The geometric mean, of rates and of ratios of neighbours: so the ratio of two rates is the mean of the ratios.

    Medians and minima, which `stats.compare` uses, have not this property: then a table can contradict its verdict.
    """
    return next_run(values) if len(values) > 1 else median_interval(values)


def start_of(arm: Arm) -> float | None:
    """Mean seconds from the start of a pass to its first batch; None: not measured."""
    return fmean(arm.start_s) if arm.start_s else None
