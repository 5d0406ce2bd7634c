"""The records of all processes of a run, read back and put in order; nothing is judged here."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipebench.watch.record import record_file

Record = dict[str, Any]


@dataclass
class Process:
    """One process's records: sums, spans and passes as they were written, and its stages by number."""

    pid: int = 0
    role: str = "script"
    loader: int | None = None
    worker: int | None = None
    start_method: str | None = None
    stopped: bool = False
    stages: dict[int, tuple[str, str, bool]] = field(default_factory=dict)
    sums: list[Record] = field(default_factory=list)
    spans: list[Record] = field(default_factory=list)
    turns: list[Record] = field(default_factory=list)
    passes: list[Record] = field(default_factory=list)
    ends: list[Record] = field(default_factory=list)
    loaders: list[Record] = field(default_factory=list)
    together: set[tuple[int, int]] = field(default_factory=set)
    marks: dict[str, int] = field(default_factory=dict)
    pools: Record = field(default_factory=dict)
    bound: list[Record] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def _process(process: Process, facts: Record) -> None:
    process.pid, process.role = facts["pid"], facts["role"]
    process.loader, process.worker = facts.get("loader"), facts.get("worker")
    process.start_method = facts.get("start_method")


def _stage(process: Process, number: int, kind: str, name: str, reads: bool) -> None:
    process.stages[number] = (kind, name, reads)


_KEEP: dict[str, Callable[..., Any]] = {
    "process": _process,
    "stage": _stage,
    "sums": lambda process, record: process.sums.append(record),
    "spans": lambda process, record: process.spans.append(record),
    "turns": lambda process, record: process.turns.append(record),
    "pass": lambda process, record: process.passes.append(record),
    "exhausted": lambda process, record: process.ends.append({**record, "event": "exhausted"}),
    "failed": lambda process, record: process.ends.append({**record, "event": "failed"}),
    "left": lambda process, record: process.ends.append({**record, "event": "left"}),
    "loader": lambda process, record: process.loaders.append(record),
    "together": lambda process, a, b: process.together.add((a, b)),
    "pools": lambda process, record: process.pools.update(record),
    "mark": lambda process, name, at: process.marks.setdefault(name, at),
    "bound": lambda process, record: process.bound.append(record),
    "fault": lambda process, where, text: process.faults.append(f"{where}: {text}"),
}


def gather(folder: Path) -> list[Process]:
    """Every process of the run, the script's own first. Lines that cannot be understood are left out."""
    found = [
        _read(path) for path in sorted(folder.iterdir()) if path.suffix in (record_file.SUFFIX, record_file.STOPPED)
    ]
    return sorted(found, key=lambda one: (one.role != "script", one.loader or 0, one.worker or 0, one.pid))


def _read(path: Path) -> Process:
    process = Process(stopped=path.suffix == record_file.STOPPED)
    for line in record_file.read(path):
        keep = _KEEP.get(line[0]) if isinstance(line, list) and line else None
        if keep is not None:
            keep(process, *line[1:])
    return process


@dataclass(frozen=True)
class Window:
    """The part of the run that the tables are about, in nanoseconds of the monotonic clock."""

    begin: float = -math.inf
    end: float = math.inf

    def holds(self, records: Iterable[Record]) -> list[Record]:
        return [one for one in records if self.begin <= float(one["begin"]) < self.end]


@dataclass(frozen=True)
class Run:
    """What every part of the summary looks at."""

    processes: list[Process]
    shown: Window
    loaders: tuple[int, ...]

    def of_script(self) -> list[Process]:
        return [one for one in self.processes if one.role == "script"]

    def turns(self, loader: int) -> list[Record]:
        return [
            one for process in self.of_script() for one in self.shown.holds(process.turns) if one["loader"] == loader
        ]

    def sums(self, loader: int) -> list[tuple[Process, Record]]:
        return [
            (process, one)
            for process in self.processes
            for one in self.shown.holds(process.sums)
            if one["loader"] == loader
        ]


def window(processes: list[Process], warmup: int) -> Window:
    marks: dict[str, int] = {}
    for process in processes:
        if process.role == "script":
            marks.update(process.marks)
    begin = marks.get("warm", math.inf) if warmup else -math.inf
    return Window(begin, marks.get("stop", math.inf))


def percentile(buckets: dict[int, int], fraction: float) -> float | None:
    """A percentile in seconds, within 6 %, from logarithmic buckets; None where nothing was counted."""
    total = sum(buckets.values())
    reached = 0
    for key in sorted(buckets):
        reached += buckets[key]
        if reached >= fraction * total:
            return record_file.bucket_middle(key) / 1e9
    return None


def added(records: Iterable[Record], name: str) -> dict[int, int]:
    """The buckets called `name` of all records, added up."""
    total: dict[int, int] = {}
    for record in records:
        for key, count in record[name]:
            total[key] = total.get(key, 0) + count
    return total
