"""Reads the records of all processes of a run and puts them in order. Nothing is judged here."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeVar, cast

from pipebench.units import printable
from pipebench.watch.read import decoding
from pipebench.watch.record import record_file
from pipebench.watch.record.last_sample import LastSample, last_sample
from pipebench.watch.record.lines import (
    Buckets,
    FetchSums,
    LibraryThreads,
    Line,
    LoaderFound,
    LoadersTogether,
    LoopSums,
    Moment,
    NewStage,
    PassBegun,
    PassEnded,
    ProcessStarted,
    StageName,
)
from pipebench.watch.record.read_lines import ReadSums
from pipebench.watch.record.spent import ROWS, TimeSpent
from pipebench.watch.record.trial_lines import LoopLooks, ThreadsBeside
from pipebench.watch.record.worker_lines import TimedOut

Place = tuple[int, int]
"""A loader's number, and the number of a pass over it."""

_OF_TRAINING = (ROWS.index("backward"), ROWS.index("optimiser"))
Kind = TypeVar("Kind", bound=Line)
Summed = TypeVar("Summed", FetchSums, LoopSums, ReadSums)
OfLoader = TypeVar("OfLoader", LoaderFound, LoopLooks, LoopSums, PassBegun, PassEnded, ThreadsBeside, TimedOut)


class Process:
    """What one process wrote. `stopped` says that writing failed, `unread` how many lines could not be decoded.

    `last` is the sample that a worker was at, if it did not end as it should.
    """

    def __init__(
        self, lines: Iterable[Line], stopped: bool = False, unread: int = 0, last: LastSample | None = None
    ) -> None:
        self.lines = list(lines)
        self.stopped, self.unread, self.last = stopped, unread, last
        self._of: dict[type, list[Line]] = {}
        for line in self.lines:
            self._of.setdefault(type(line), []).append(line)
        self.started = next(iter(self.of(ProcessStarted)), _UNKNOWN)

    def of(self, kind: type[Kind]) -> list[Kind]:
        """The lines of one kind, in the order in which they were written."""
        return cast("list[Kind]", self._of.get(kind, []))

    @property
    def pid(self) -> int:
        return self.started.pid

    @property
    def role(self) -> str:
        return self.started.role

    @property
    def loader(self) -> int | None:
        return self.started.loader

    @property
    def worker(self) -> int | None:
        return self.started.worker

    @cached_property
    def left(self) -> dict[int, int]:
        """Stages that were timed only at first, and the ones that have their time since then."""
        return {stage: around for line in self.of(FetchSums) for stage, around in line.left.items()}

    @cached_property
    def stages(self) -> dict[int, StageName]:
        """The stages by their numbers. One that is in `left` goes by the name of the stage around it."""
        named = {line.number: line.stage for line in self.of(NewStage)}
        return {number: named.get(_around(number, self.left), stage) for number, stage in named.items()}

    def stage(self, number: int) -> StageName:
        return self.stages.get(number, StageName("getitem", f"stage {number}"))

    @property
    def threads(self) -> LibraryThreads:
        return next(reversed(self.of(LibraryThreads)), LibraryThreads())

    def moment(self, name: Literal["warm", "stop", "end"]) -> int | None:
        """When the process first reached this point; None if it never did."""
        return next((line.at for line in self.of(Moment) if line.name == name), None)


def _around(number: int, left: dict[int, int]) -> int:
    passed: set[int] = set()
    while number in left and number not in passed:
        passed.add(number)
        number = left[number]
    return number


NO_LOADER = 0
"""Stands for a loader in a loop that has none."""
_UNKNOWN = ProcessStarted(0, "unknown", 0)


def gather(folder: Path) -> list[Process]:
    """Every process of the run, the script's own first."""
    found = [
        Process(*_read(path))
        for path in sorted(folder.iterdir())
        if path.suffix in (record_file.SUFFIX, record_file.STOPPED)
    ]
    return sorted(found, key=lambda one: (one.role != "script", one.loader or 0, one.worker or 0, one.pid))


def _read(path: Path) -> tuple[list[Line], bool, int, LastSample | None]:
    lines, unread = decoding.read(path)
    if not any(isinstance(one, ProcessStarted) for one in lines):
        lines.insert(0, _without_begin(path, lines))
    last = last_sample(path)
    return lines, path.suffix == record_file.STOPPED, unread, last and last._replace(name=printable(last.name))


def _without_begin(path: Path, lines: Iterable[Line]) -> ProcessStarted:
    """Stands for a first line that is lost, as on a full disk. Only the script's own process writes of its passes."""
    pid = path.name.partition("-")[0]
    script = any(isinstance(one, PassBegun) for one in lines)
    return ProcessStarted(int(pid) if pid.isdecimal() else 0, "script" if script else "unknown", 0)


@dataclass(frozen=True)
class ShownTime:
    """The part of the run that the tables show, in nanoseconds of the monotonic clock."""

    begin: float = -math.inf
    end: float = math.inf

    def holds(self, lines: Iterable[Summed]) -> list[Summed]:
        return [one for one in lines if self.begin <= one.begin < self.end]


@dataclass(frozen=True)
class Run:
    """What every part of the summary reads: the processes, the shown time and the numbers of the loaders."""

    processes: list[Process]
    shown: ShownTime
    loaders: tuple[int, ...]

    def of_script(self) -> list[Process]:
        return [one for one in self.processes if one.role == "script"]

    @cached_property
    def trained_places(self) -> set[Place]:
        """The passes in which a backward pass or an optimiser's step ran. Of a loop that was left, the time tells."""
        found: set[Place] = set()
        for process in self.of_script():
            found |= {(one.loader, one.number_of_pass) for one in process.of(LoopSums) if one.trained}
            passes = (one for line in process.of(TimeSpent) for one in line.passes)
            found |= {
                (one.loader, one.number_of_pass) for one in passes if any(one.spent_ns[row] for row in _OF_TRAINING)
            }
        return found

    @cached_property
    def around(self) -> set[tuple[Place, Place]]:
        """Each pass that does not train and goes on after the begin of one that does, and this one: a loop around it.

        Both are in the main thread: what another thread iterates meanwhile is around nothing. Neither is an iterator
        that is held meanwhile, as one that is asked once before training and used up after it: a loop around others has
        a pass that trains in at least half of its iterations.
        """
        trained, found = self.trained_places, set()
        for process in self.of_script():
            begun = {(one.loader, one.number): one.begin for one in process.of(PassBegun)}
            lines = [one for one in process.of(LoopSums) if not one.beside]
            last = {(one.loader, one.number_of_pass): one.begin for one in lines}
            turns = Counter[Place]()
            for one in lines:
                turns[one.loader, one.number_of_pass] += one.turns
            inner = sorted((begun[place], place) for place in trained & set(begun) & set(last))
            apart = {frozenset(pair) for pair in in_step(process)}  # an iterator that is asked within the other's loop
            for outer in set(last) & set(begun) - trained:
                first, end = bisect_left(inner, (begun[outer] + 1,)), bisect_left(inner, (last[outer],))
                places = {place for _, place in inner[first:end] if place[0] != outer[0]}
                if 2 * len(places) < turns[outer]:
                    continue
                found |= {(outer, one) for one in places if frozenset((outer[0], one[0])) not in apart}
        return found

    def turns(self, loader: int) -> list[LoopSums]:
        return [
            one
            for process in self.of_script()
            for one in self.shown.holds(process.of(LoopSums))
            if one.loader == loader
        ]

    def workers_of(self, loader: int) -> list[Process]:
        return [one for one in self.processes if one.role == "worker" and one.loader == loader]

    def of_loader(self, kind: type[OfLoader], loader: int) -> list[OfLoader]:
        """The lines of one kind that the script's processes wrote about a loader, also in the warm-up."""
        return [one for process in self.of_script() for one in process.of(kind) if one.loader == loader]

    def looks(self, loader: int) -> list[LoopLooks]:
        """What looks at the loop of a loader found, also in the warm-up."""
        return self.of_loader(LoopLooks, loader)

    def sums(self, loader: int) -> list[tuple[Process, FetchSums]]:
        return [
            (process, one)
            for process in self.processes
            for one in self.shown.holds(process.of(FetchSums))
            if one.loader == loader
        ]


def in_step(process: Process) -> set[tuple[int, int]]:
    """The pairs of loaders that were iterated in step."""
    return {(one.first, one.second) for one in process.of(LoadersTogether) if one.first != one.second}


def loaders_found(processes: Iterable[Process]) -> dict[int, LoaderFound]:
    """Every loader that was iterated, by its number."""
    return {one.loader: one for process in processes for one in process.of(LoaderFound)}


def shown_time(processes: list[Process], warmup: int) -> ShownTime:
    """The time that the tables show: from the end of the warm-up, if there is one, until recording stopped."""
    script = [one for one in processes if one.role == "script"]
    warm = [at for one in script if (at := one.moment("warm")) is not None]
    stop = [at for one in script if (at := one.moment("stop")) is not None]
    begin = (warm[-1] if warm else math.inf) if warmup else -math.inf
    return ShownTime(begin, stop[-1] if stop else math.inf)


def percentile(buckets: Buckets, fraction: float) -> float | None:
    """A percentile in seconds, within 6 %, from logarithmic buckets; None if nothing was counted."""
    total = sum(buckets.values())
    reached = 0
    for key in sorted(buckets):
        reached += buckets[key]
        if reached >= fraction * total:
            return record_file.bucket_middle(key) / 1e9
    return None


def added(buckets: Iterable[Buckets]) -> Buckets:
    """The sum of all these buckets, key by key."""
    total: Buckets = {}
    for one in buckets:
        for key, count in one.items():
            total[key] = total.get(key, 0) + count
    return total
