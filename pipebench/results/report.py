"""The one serialisable root of everything that was measured: save, load, and read again a year later."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from pipebench import __version__
from pipebench.errors import BadSample, PipebenchError
from pipebench.host import machine
from pipebench.host.machine import Machine
from pipebench.host.whole_files import write_whole
from pipebench.results.loading import LoaderRow
from pipebench.results.measurement import Ceiling, Measurement
from pipebench.results.training import Training, of_schema_1
from pipebench.results.watched import WatchResult
from pipebench.task import Workload
from pipebench.units import printable, size

SCHEMA_VERSION = 1
_MISSHAPEN = (ArithmeticError, AttributeError, LookupError, TypeError)  # of an old report that is brought up to date
LARGEST_FILE = 64 << 20  # bytes; a report of every variant at --rigorous is under 1 MB


@dataclass(frozen=True)
class Data:
    """What was measured on: how many images were listed, their mean size, and how many bits they spend on a pixel.

    The cost of decoding follows bits per pixel; a set whose figure is far from that of photographs (about 2 at quality
    90) says little about them. None where too few images could be read to say.
    """

    name: str
    images: int
    mean_bytes: float | None
    bits_per_pixel: float | None
    bits_per_pixel_sd: float | None


@dataclass(frozen=True)
class Report:
    """What `pipebench run` measured, or what `pipebench watch` saw.

    `partial` says that it did not come to its end, or that recording did not, and `failure` what ended it. `loader` and
    `training` are None where they were not measured; `workload` is None, and all but `watch` and `calibration` empty,
    where a script was watched. `calibration` is what was known of the error of `watch` when it was saved.
    """

    schema_version: int
    partial: bool
    created: str
    pipebench: str
    machine: Machine
    workload: Workload | None = None
    data: Data | None = None
    measurements: tuple[Measurement, ...] = ()
    ceilings: tuple[Ceiling, ...] = ()
    bad_samples: tuple[BadSample, ...] = ()
    loader: tuple[LoaderRow, ...] | None = None
    training: Training | None = None
    failure: str | None = None
    watch: WatchResult | None = None
    calibration: str | None = None


@dataclass(frozen=True)
class _Versioned:
    schema_version: int


def of_watch(result: WatchResult, calibration: str | None) -> Report:
    """The report of one watched run; partial where its recording, or its measuring of the bound, was cut short."""
    return Report(
        schema_version=SCHEMA_VERSION,
        partial=not result.complete or (result.bound is not None and not result.bound.complete),
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        pipebench=__version__,
        machine=machine.describe(),
        watch=result,
        calibration=calibration,
    )


def encode(report: Report) -> bytes:
    return msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n"


def save(report: Report, path: Path) -> None:
    write_whole(path, encode(report))


def load(path: Path) -> Report:
    """Reads a report back, typed; whatever is not one, or is of another schema, is refused with what it is."""
    name = printable(path)
    try:
        if not path.is_file():
            raise PipebenchError(f"{name} is not a file", "name a report that `pipebench run --export-json` wrote")
        length = path.stat().st_size
        if length > LARGEST_FILE:
            raise PipebenchError(f"{name} has {size(length)}, more than any report", "name a pipebench report")
        content = path.read_bytes()
    except OSError as error:
        raise PipebenchError(f"cannot read {name}: {error.strerror}", "check the path and its permissions") from error
    try:
        found = msgspec.json.decode(content, type=_Versioned).schema_version
        if found != SCHEMA_VERSION:
            age = "newer" if found > SCHEMA_VERSION else "older"
            raise PipebenchError(
                f"{name} has schema version {found}, {age} than this pipebench reads ({SCHEMA_VERSION})",
                "use the pipebench that wrote it" + (", or upgrade this one" if age == "newer" else ""),
            )
        report = msgspec.convert(_today(msgspec.json.decode(content)), Report)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, *_MISSHAPEN) as error:
        raise PipebenchError(
            f"{name} is not a pipebench report: {printable(str(error))[:200]}", "name a report that pipebench wrote"
        ) from error
    if not all(value > 0 for value in _divisors(report)):
        raise PipebenchError(f"{name} holds figures that no run can give", "name a report that pipebench wrote")
    return report


def _today(root: Any) -> Any:
    """A decoded report whose training part has today's form."""
    training = root.get("training")
    if training is None or "watched" in training:
        return root
    return {**root, "training": of_schema_1(training, root["machine"]["usable_cores"])}


def _divisors(report: Report) -> Iterator[float]:
    """What a renderer divides by, which in every run is positive."""
    ratios = [one.ratio_to_reference for one in report.measurements]
    for one in report.measurements:
        if one.summary is not None:
            yield from (one.summary.median_s, one.summary.low_s, one.work.samples if one.work else 0)
        if one.readings_s:
            yield from (*one.readings_s, one.calls_per_reading)
    if (training := report.training) is not None:
        bound = training.bound
        ratios += [bound.gain, bound.gain_busy, bound.gain_device]
        rates = (bound.live, bound.bound, bound.bound_busy, bound.bound_device)
        yield from (rate.samples_per_s for rate in rates if rate is not None)
    for ratio in ratios:
        if ratio is not None:
            yield from (ratio.ratio, ratio.low, ratio.high)
