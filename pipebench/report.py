"""The one serialisable root of everything that was measured: save, load, and read again a year later."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from pipebench.bound import Training
from pipebench.errors import BadSample, PipebenchError
from pipebench.loader import LoaderRow
from pipebench.machine import Machine
from pipebench.measurement import Ceiling, Measurement
from pipebench.stage import Workload
from pipebench.units import printable, size

SCHEMA_VERSION = 1
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
    """What `pipebench run` measured. `partial` says that it did not come to its end, and `failure` what ended it.

    `loader` and `training` are None where they were not measured.
    """

    schema_version: int
    partial: bool
    created: str
    pipebench: str
    machine: Machine
    workload: Workload
    data: Data | None = None
    measurements: tuple[Measurement, ...] = ()
    ceilings: tuple[Ceiling, ...] = ()
    bad_samples: tuple[BadSample, ...] = ()
    loader: tuple[LoaderRow, ...] | None = None
    training: Training | None = None
    failure: str | None = None


@dataclass(frozen=True)
class _Versioned:
    schema_version: int


def encode(report: Report) -> bytes:
    return msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n"


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file so that it is either all there or as it was: temporary file, fsync, rename."""
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name[:100]}.", dir=path.parent)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        raise PipebenchError(
            f"cannot write {printable(path)}: {error.strerror}",
            "free some space or choose another place; the file is as it was",
        ) from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


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
        report = msgspec.json.decode(content, type=Report)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PipebenchError(
            f"{name} is not a pipebench report: {printable(str(error))[:200]}", "name a report that pipebench wrote"
        ) from error
    if not all(value > 0 for value in _divisors(report)):
        raise PipebenchError(f"{name} holds figures that no run can give", "name a report that pipebench wrote")
    return report


def _divisors(report: Report) -> Iterator[float]:
    """What a renderer divides by, which in every run is positive."""
    ratios = [one.ratio_to_reference for one in report.measurements]
    for one in report.measurements:
        if one.summary is not None:
            yield from (one.summary.median_s, one.summary.low_s, one.work.samples if one.work else 0)
    if (training := report.training) is not None:
        ratios += [training.bound_to_live, training.busy_to_live, training.device_to_live]
        rates = (training.live, training.bound, training.bound_busy, training.bound_device)
        yield from (rate.samples_per_s for rate in rates if rate is not None)
    for ratio in ratios:
        if ratio is not None:
            yield from (ratio.ratio, ratio.low, ratio.high)
