"""The report: the one serialisable root of all results. It can be saved, and loaded again a year later.

Every command saves the same root. A command fills the parts that it makes and leaves the others empty.
"""

from __future__ import annotations

import contextlib
import datetime
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from pipebench import __version__
from pipebench.errors import BadSample, PipebenchError, UsageError, remedy_of
from pipebench.host import machine, redaction
from pipebench.host.machine import Machine
from pipebench.host.whole_files import write_whole
from pipebench.results.advice import Advice
from pipebench.results.before_after import BeforeAfter
from pipebench.results.calibration import Calibration
from pipebench.results.check import Check, Finding
from pipebench.results.comparison import Comparison, figures
from pipebench.results.consumers import Consumer
from pipebench.results.costs import Passport
from pipebench.results.engine import EngineRun
from pipebench.results.examination import Examination
from pipebench.results.loaders import SideBySide
from pipebench.results.loading import LoaderRow
from pipebench.results.measurement import Ceiling, Measurement
from pipebench.results.packing import Packing
from pipebench.results.plan import Plan
from pipebench.results.programs import WatchedCommand
from pipebench.results.remote import Remote
from pipebench.results.studies import StudyResult
from pipebench.results.sync_points import SyncReport
from pipebench.results.training import Training
from pipebench.results.verdicts import ReportVerdict, verdict
from pipebench.results.watched import WatchResult
from pipebench.task import Workload
from pipebench.units import all_printable, printable, size

SCHEMA_VERSION = 2
LARGEST, SMALLEST = 1 << 64, 1e-30  # numbers in a report: seeds have 63 bits; differences of floats may be tiny
_ROUNDING = 0.01  # of sums that make up a share
MOST_ROWS = 10_000  # of one table: to show one row takes about a millisecond
MOST_TEXT = 5_000_000  # characters in all; to look for secrets and names in a million of them takes about a second
LARGEST_FILE = 64 << 20  # bytes; a report of every variant at --rigorous is under 1 MB


@dataclass(frozen=True)
class Data:
    """The data that was used: the number of listed images, their mean size in bytes, and their bits per pixel.

    The cost of decoding follows bits per pixel. A data set whose figure is far from that of photographs (about 2 at
    quality 90) says little about photographs. A figure is None if too few images could be read to compute it.
    """

    name: str
    images: int
    mean_bytes: float | None
    bits_per_pixel: float | None
    bits_per_pixel_sd: float | None
    noticed: tuple[Finding, ...] = ()  # while it was listed


@dataclass(frozen=True)
class BetweenRuns:
    """How far the next run may be, from so many runs with equal settings on one host, this one included.

    `cost` and `speedup` are the logarithms of a factor: half the width of an interval of 95 %.
    """

    runs: int
    cost: float
    speedup: float


@dataclass(frozen=True)
class Report:
    """The result of any command: the machine, and the parts that the command made. The other parts are empty.

    `run` makes `workload`, `data`, `measurements`, `ceilings`, `bad_samples`, `loader`, `consumers` (the user's, or
    published ones), `training` and `between_runs` (what earlier runs told); `watch` makes `watched` and
    `error_of_watch` (one line on how far its figures could be trusted on that day), and `command` if it watched all
    programs of a command, of which `watched` is then one; `syncs` makes `sync_points`, `ab`
    makes `comparison`, `study` makes `studies`, and `calibrate` makes `calibration`. `advise` makes `advice`, and
    `watched` of the part of the run before any trial.
    A passport has `passport` alone, `plan` makes `plan`, `check` makes `check`, `compare` makes `before_after`,
    `doctor` makes `examination`, `remote` makes `remote`, `loaders` makes `loaders`, and `run --engine` makes `engine`
    and `bad_samples`. `pack` makes `packing`; `data NAME` makes `data`, and `data` alone makes `data_sets`, their
    names; `build` and `init` make `written`, the paths of what they wrote. These have no verdict.

    `partial` says that the command, or its recording, did not reach its end; `failure` says what ended it. `created` is
    an ISO date and time. `created`, `pipebench` and `machine` are None if no command made the report.
    `started_by` is the command line that made the report, without secrets ("": none did).

    `verdict` follows from the other parts: what the report says, as a code with its evidence.
    """

    schema_version: int
    partial: bool = False
    created: str | None = None
    pipebench: str | None = None
    machine: Machine | None = None
    workload: Workload | None = None
    data: Data | None = None
    measurements: tuple[Measurement, ...] = ()
    ceilings: tuple[Ceiling, ...] = ()
    bad_samples: tuple[BadSample, ...] = ()
    loader: tuple[LoaderRow, ...] | None = None
    consumers: tuple[Consumer, ...] = ()
    training: Training | None = None
    failure: str | None = None
    watched: WatchResult | None = None
    error_of_watch: str | None = None
    sync_points: SyncReport | None = None
    comparison: Comparison | None = None
    studies: tuple[StudyResult, ...] = ()
    calibration: Calibration | None = None
    advice: Advice | None = None
    between_runs: BetweenRuns | None = None
    passport: Passport | None = None
    plan: Plan | None = None
    command: WatchedCommand | None = None
    started_by: str = ""
    check: Check | None = None
    before_after: BeforeAfter | None = None
    examination: Examination | None = None
    remote: Remote | None = None
    packing: Packing | None = None
    data_sets: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    loaders: SideBySide | None = None
    engine: EngineRun | None = None
    verdict: ReportVerdict | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        object.__setattr__(self, "verdict", verdict(self))


def new(storage: Path | None = None, **parts: Any) -> Report:
    """A report of this moment, this machine and this pipebench, with the parts of a command.

    `storage` is a path of the data. The description of the machine names the storage that holds this path.
    """
    return Report(
        schema_version=SCHEMA_VERSION,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        pipebench=__version__,
        machine=machine.describe(storage),
        **{"started_by": _command_line(), **parts},
    )


def _command_line() -> str:
    """The command line of this process, if it is a command of pipebench; else ""."""
    program = Path(sys.argv[0])
    ours = program.name == "pipebench" or program.parts[-2:] == ("pipebench", "__main__.py")
    return redaction.command_line(["pipebench", *sys.argv[1:]]) if ours else ""


def of_watch(result: WatchResult, error_of_watch: str | None, command: WatchedCommand | None = None) -> Report:
    """The report of one watched run. It is partial if the recording or the measuring of the bound was cut short."""
    cut = not result.complete or (result.bound is not None and not result.bound.complete)
    return new(partial=cut, watched=result, error_of_watch=error_of_watch, command=command)


def encode(report: Report) -> bytes:
    """The report as JSON, without secrets. A name that is not UTF-8 is escaped, as it is in every text."""
    try:
        raw = msgspec.json.encode(report)
    except UnicodeEncodeError:
        raw = msgspec.json.encode(all_printable(msgspec.to_builtins(report)))
    if redaction.may_hold(raw.decode()):
        raw = msgspec.json.encode(redaction.redacted_in(msgspec.json.decode(raw)))
    return msgspec.json.format(raw, indent=1) + b"\n"


def save(report: Report, path: Path) -> None:
    write_whole(path, encode(report))


def load(path: Path) -> Report:
    """Reads a saved report back, typed.

    Raises UsageError if there is no such file, and PipebenchError if it is no report or has another schema. The error
    says what the file is.
    """
    name = printable(path)
    content = _content(path, name)
    try:
        report = _typed(content, name)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PipebenchError(
            f"{name} is not a pipebench report: {printable(str(error))[:200]}", "name a report that pipebench wrote"
        ) from error
    plain = msgspec.to_builtins(report)
    if (most := max(_rows(plain), default=0)) > MOST_ROWS:
        raise PipebenchError(f"{name} has a table of {most:,} rows, more than any run", "name a pipebench report")
    values = [*_values(plain)]
    if (length := sum(len(one) for _, one in values if isinstance(one, str))) > MOST_TEXT:
        raise PipebenchError(f"{name} has {length:,} characters of text, more than any run", "name a pipebench report")
    numbers = [(name, one) for name, one in values if isinstance(one, int | float)]
    possible = all(_possible(number) for _, number in numbers) and all(_shares(numbers))
    if not possible or not all(value > 0 for value in _divisors(report)):
        raise PipebenchError(f"{name} holds figures that no run can give", "name a report that pipebench wrote")
    return report


def _content(path: Path, name: str) -> bytes:
    try:
        if not path.is_file():
            raise UsageError(f"{name} is not a file", "name a report that --export-json wrote")
        length = path.stat().st_size
        if length > LARGEST_FILE:
            raise PipebenchError(f"{name} has {size(length)}, more than any report", "name a pipebench report")
        return path.read_bytes()
    except OSError as error:
        raise PipebenchError(f"cannot read {name}: {error.strerror}", remedy_of(error, "check the path")) from error


@dataclass(frozen=True)
class _Versioned:
    schema_version: int


def _typed(content: bytes, name: str) -> Report:
    """The report in `content`. Raises PipebenchError if it has another schema."""
    found = msgspec.json.decode(content, type=_Versioned).schema_version
    if found == SCHEMA_VERSION:
        return msgspec.json.decode(content, type=Report)
    age = "newer" if found > SCHEMA_VERSION else "older"
    raise PipebenchError(
        f"{name} has schema version {found}, {age} than this pipebench reads ({SCHEMA_VERSION})",
        "use the pipebench that wrote it" + (", or upgrade this one" if age == "newer" else ""),
    )


def _values(found: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every number, text and None within plain values, with the name of its field."""
    if isinstance(found, dict):
        for key, one in found.items():
            yield from _values(one, key)
    elif isinstance(found, list | tuple):
        for one in found:
            yield from _values(one, name)
    else:
        yield name, found


def _shares(numbers: Iterable[tuple[str, float]]) -> Iterator[bool]:
    """Whether each share is one, from 0 to 1. A stage beside the others can take longer than all of them."""
    for name, number in numbers:
        if name in ("share", "worker_share") or (name.endswith("_share") and name != "error_share"):
            yield -_ROUNDING <= number <= (LARGEST if name == "worker_share" else 1 + _ROUNDING)


def _rows(found: Any) -> Iterator[int]:
    """The length of every table within plain values: a list of objects. Of some, a run may have any number."""
    for name, one in found.items():
        if isinstance(one, dict):
            yield from _rows(one)
        elif isinstance(one, list | tuple) and name not in _ANY_NUMBER:
            objects = [each for each in one if isinstance(each, dict)]
            yield len(objects)
            for each in objects[:MOST_ROWS]:
                yield from _rows(each)


_ANY_NUMBER = ("bad_samples", "steps")  # they are summed up when they are shown


def _possible(number: float) -> bool:
    """Whether a run can give such a number. Others would let a renderer count for ever, or divide by almost nothing."""
    return not number or SMALLEST < abs(number) < LARGEST


def _divisors(report: Report) -> Iterator[float]:
    """The figures by which a renderer divides. Every run gives positive ones. `Speedup` checks its own figures."""
    for one in report.measurements:
        if one.summary is not None:
            yield from (one.summary.median_s, one.summary.low_s, one.work.samples if one.work else 0)
        if one.readings_s:
            yield from (*one.readings_s, one.calls_per_reading)
    if (training := report.training) is not None:
        bound = training.bound
        rates = (bound.live, bound.bound, bound.bound_busy, bound.bound_device)
        yield from (rate.samples_per_s for rate in rates if rate is not None)
    for costs in report.watched.costs if report.watched is not None else ():
        yield from costs.divisors()
    if report.passport is not None:
        yield from report.passport.divisors()
    if report.remote is not None:
        yield from (report.remote.images, report.remote.looked_bytes)
        yield from (len(one.bytes_per_s) for one in report.remote.rows)
    yield from report.loaders.divisors() if report.loaders is not None else ()
    yield from report.engine.divisors() if report.engine is not None else ()
    yield from figures(report.comparison.changes if report.comparison else ())
    yield from (author for study in report.studies for row in study.rows if (author := row.author.speedup) is not None)


def keep_calibration(calibration: Calibration) -> Path:
    """Saves a calibration for this host as a report, in place of an earlier one. Returns its path."""
    place = machine.calibration_file()
    save(new(calibration=calibration), place)
    return place


def kept_calibration() -> Calibration | None:
    """The saved calibration of this host; None if there is none, or if it cannot be read."""
    with contextlib.suppress(PipebenchError):
        return load(machine.calibration_file()).calibration
    return None
