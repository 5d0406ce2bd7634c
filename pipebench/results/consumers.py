"""What takes the images, how many the pipeline feeds, and how many cores feeding such a consumer needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pipebench.results.loading import LoaderRow
from pipebench.stats import Interval

_HELD_UP = ("foreign-load", "steal", "throttled")  # warnings that somebody else had part of the cores


@dataclass(frozen=True)
class Consumer:
    """A training and the images per second that it takes when its batches are ready.

    `kind` says where the rate comes from: the user stated it, `run` measured it, or somebody published it. `low` and
    `high` bound a measured rate; other rates come without an error. A published rate has the `device` with its number,
    the `precision`, how it got its images (`data`), who published it (`source`), a permanent `link` and the ISO date.
    """

    name: str
    images_per_s: float
    kind: Literal["stated", "measured", "published"] = "published"
    low: float | None = None
    high: float | None = None
    device: str = ""
    precision: str = ""
    data: str = ""
    source: str = ""
    link: str = ""
    date: str = ""


@dataclass(frozen=True)
class Fed:
    """A measured point: the images per second that the loader feeds with `cores` workers, one for each core.

    `of_a_core` is what one core feeds. If others had part of the cores (`held_up`), it is the images per CPU second:
    then the loader feeds more on a quiet machine. Else it is the rate divided by `cores`, which includes time that
    workers wait for storage. `used` is how many cores the loader kept busy on average, None if that is unknown.
    """

    cores: int
    rate: Interval
    of_a_core: Interval
    held_up: bool = False
    used: float | None = None


@dataclass(frozen=True)
class Need:
    """How many cores feed a consumer: between `low` and `high`.

    - `measured`: the loader was measured to feed the rate with `high` cores, and not to feed it with fewer than `low`.
    - `predicted`: no measured number of cores fed it for certain. `cores` is the rate divided by what one core feeds
      at the largest number that was measured, with the interval of both rates. It is an estimate for cores that feed as
      much; further cores often feed less.
    - `unreached`: the rate is above every measured one, and the largest number of cores fed less than a smaller one.
      So there is no number to give; `low` and `high` are 0.

    `beyond` compares a prediction with the usable cores of the machine: True if it has too few, None if the interval
    includes its number or if that is unknown.
    """

    kind: Literal["measured", "predicted", "unreached"]
    low: float = 0.0
    high: float = 0.0
    cores: float | None = None
    beyond: bool | None = False


def points(rows: Sequence[LoaderRow], stream: bool = False) -> tuple[Fed, ...]:
    """The measured points of the reference pipeline, by number of cores, without those of more workers than cores.

    A loader without workers uses one core too. Its row counts where there is none with one worker.
    """
    kind = "webdataset" if stream else "map"
    found: dict[int, Fed] = {}
    for row in sorted(rows, key=lambda one: one.workers, reverse=True):
        rate = _interval(row.images_per_s, row.low, row.high, row)
        if row.dataset == kind and row.dtype == "float32" and not row.oversubscribed and rate is not None:
            found.setdefault(max(1, row.workers), _point(max(1, row.workers), rate, row))
    return tuple(sorted(found.values(), key=lambda one: one.cores))


def _point(cores: int, rate: Interval, row: LoaderRow) -> Fed:
    by_cpu = _interval(row.images_per_core_s, row.core_low, row.core_high, row)
    used = rate.median / by_cpu.median if by_cpu else None
    if by_cpu is not None and any(one.code in _HELD_UP for one in row.warnings):
        return Fed(cores, rate, by_cpu, True, used)
    whole = Interval(rate.median / cores, rate.low / cores, rate.high / cores, rate.confidence)
    return Fed(cores, rate, whole, False, used)


def _interval(median: float | None, low: float | None, high: float | None, row: LoaderRow) -> Interval | None:
    """None for a figure that is missing, or that no run can give."""
    if not (median and low and high) or min(median, low, high) <= 0:
        return None
    return Interval(median, low, high, row.confidence or 0.0)


def needed(fed: Sequence[Fed], consumer: Consumer, usable_cores: float | None) -> Need:
    """How many cores feed the consumer. Raises ValueError if nothing was measured.

    A point feeds the rate if its whole interval is at least the rate. It does not if its whole interval is below the
    rate and nobody else had part of its cores.
    """
    if not fed:
        raise ValueError("no loader was measured")
    low, high = consumer.low or consumer.images_per_s, consumer.high or consumer.images_per_s
    enough = next((one for one in fed if one.rate.low >= high), None)
    short = max((one.cores for one in fed if one.rate.high < low and not one.held_up), default=0)
    if enough is not None:
        return Need("measured", min(short + 1, enough.cores), enough.cores)
    last = fed[-1]
    if not last.held_up and any(one.rate.low > last.rate.high for one in fed):
        return Need("unreached")
    core = last.of_a_core
    least, most = low / core.high, high / core.low
    return Need("predicted", least, most, consumer.images_per_s / core.median, _beyond(least, most, usable_cores))


def _beyond(least: float, most: float, usable_cores: float | None) -> bool | None:
    if usable_cores is None or least <= usable_cores < most:
        return None
    return least > usable_cores
