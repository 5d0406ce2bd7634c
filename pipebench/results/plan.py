"""The result of `plan`: what was asked, what is predicted, and how far such predictions were off where it is known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Resource = Literal["workers", "cores", "loop", "pin", "consumer", "storage", "network", "shared-memory"]


@dataclass(frozen=True)
class Figure:
    """A predicted figure. The true one lies between `low` and `high` in about 95 % of cases."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Asked:
    """The question. Figures that are None stay as they are in the watched run.

    `cores` are those of the whole machine, and `devices` share them (None: the watched loop, beside the other ranks of
    its job). `consumer` is the rate of one device, in samples per second. `faster` names stages, each with the factor
    by which it becomes faster. `storage` and `network` are in bytes per second, of the whole machine. `others` is how
    many threads of other processes want a core.
    """

    workers: int | None = None
    prefetch_factor: int | None = None
    cores: float | None = None
    consumer: float | None = None
    devices: int | None = None
    faster: tuple[tuple[str, float], ...] = ()
    storage: float | None = None
    network: float | None = None
    others: float | None = None

    @property
    def loops(self) -> int:
        """How many loops the predictions are of together."""
        return self.devices or 1


@dataclass(frozen=True)
class Prediction:
    """One setting of the loader of each device, and the samples per second of all devices together.

    `limits` are the samples per second that each resource alone would allow (closed forms). `limit` is the least one.
    Where the threads lack cores that others use, or get in each other's way, "cores" is what the simulation says.
    """

    workers: int
    prefetch_factor: int
    samples_per_s: Figure
    limit: Resource
    limits: dict[str, float]

    @property
    def checked(self) -> bool:
        """Whether the interval means something: rates that storage or network deliver were never checked."""
        return self.samples_per_s.value < min(self.limits.get(one, math.inf) for one in ("storage", "network"))


@dataclass(frozen=True)
class Check:
    """The same model on a setting that was really run: samples per second of the present one, else a speed-up."""

    workers: int
    prefetch_factor: int
    of: Literal["samples_per_s", "speedup"]
    measured: float
    predicted: float

    @property
    def error(self) -> float:
        """0.05 says that the prediction was 5 % too high."""
        return self.predicted / self.measured - 1.0


@dataclass(frozen=True)
class Need:
    """What feeding the consumer takes of one resource, in base units (cores, workers of a device, bytes, bytes per s).

    `available` is None if nothing was said about it. `validated` is false if such figures were never checked.
    """

    resource: Resource
    needed: Figure
    available: float | None = None
    validated: bool = True

    @property
    def enough(self) -> bool | None:
        """None: it cannot be told, or nothing was said."""
        if self.available is None or self.needed.low <= self.available < self.needed.high:
            return None
        return self.needed.high <= self.available


@dataclass(frozen=True)
class OneMachine:
    """Where one machine ends, for `devices` that each take `device` samples per second.

    Where no devices were asked for, they are the ranks of the watched job: as many as would use its cores as the
    watched one does, so they need not be a whole number. `cores` is what all of them need beside what the machine has,
    `per_device` what one needs, and `fed` how many such devices the cores feed. `stays` are the cores that the training
    loops need themselves, wherever samples are made; `lacking` are those that are not there. `encoded` is the rate at
    which samples are read, and `decoded` that at which other machines would have to send them (None: their size is not
    known).
    """

    device: float
    devices: float
    cores: Need
    per_device: Figure
    fed: Figure
    stays: Figure
    lacking: Figure
    encoded: Need | None = None
    decoded: Need | None = None

    @property
    def moving_helps(self) -> bool:
        """Whether cores of other machines would feed the devices: these lack cores for certain, and nothing else."""
        have = self.cores.available
        others = [one for one in (self.encoded, self.decoded) if one is not None and one.enough is False]
        return self.cores.enough is False and not others and have is not None and self.stays.high <= have


@dataclass(frozen=True)
class Plan:
    """Predictions from the costs of one watched run.

    `workers` and `cores` are those of the watched run, `samples_per_s` its measured rate. `best` is the index of the
    setting that was asked for; of a ladder, that of the fewest workers that are nearly the fastest, or the present one
    if it is nearly the fastest. `wanted` is what the consumers use in samples per second (None: not asked), and `fed`
    says whether the best setting feeds them (None: it cannot be told). `model_error` is the relative error (one
    standard deviation) in all intervals. `from_alone` says that the watched loader had no workers, so that the cost of
    handing over is assumed. `unread` says that the bytes of a sample are not known. `one_machine` says where one
    machine ends (None: a report of an older pipebench, or no core is needed). `others` is how many threads of other
    processes wanted a core in the watched run. `others_told` are those that waits for a core told of, where they are
    more than its measured rate allows. `part` is the part of the cores that one of several ranks has (None: the loop
    has them all, or devices were asked for).
    """

    asked: Asked
    workers: int
    cores: float
    samples_per_s: float
    predictions: tuple[Prediction, ...]
    best: int
    checks: tuple[Check, ...]
    model_error: float
    wanted: float | None = None
    fed: bool | None = None
    needs: tuple[Need, ...] = ()
    from_alone: bool = False
    unread: bool = False
    one_machine: OneMachine | None = None
    others: float = 0.0
    others_told: float | None = None
    part: float | None = None

    @property
    def chosen(self) -> Prediction:
        return self.predictions[self.best]

    @property
    def gain(self) -> float:
        """The chosen rate over that of the present setting, both from the model: so its error cancels in part."""
        now = next((one.predicted for one in self.checks if one.of == "samples_per_s"), self.samples_per_s)
        return self.chosen.samples_per_s.value / now

    @property
    def is_present(self) -> bool:
        """Whether the chosen setting is the one that was measured."""
        asked, best = self.asked, self.chosen
        same = Asked(asked.workers, asked.prefetch_factor) == asked
        return same and any(
            (one.workers, one.prefetch_factor) == (best.workers, best.prefetch_factor)
            for one in self.checks
            if one.of == "samples_per_s"
        )
