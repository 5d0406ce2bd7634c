"""The notes that the sync modes take while a step runs, and the counts per step made from them.

This module imports torch (through `placement`): import it only where it is used.
"""

from __future__ import annotations

import collections
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pipebench.results.sync_points import CompiledRegion, Operation, SyncPoint, SyncReport
from pipebench.syncpoints.placement import Placement, Sight, Stack
from pipebench.units import printable


@dataclass
class Tally:
    """How often something happened at one line, and the host time that it took."""

    count: int = 0
    seconds: float = 0.0

    def add(self, seconds: float, count: int = 1) -> None:
        self.count += count
        self.seconds += seconds


Line = tuple[str, int]


@dataclass
class Pages:
    """The entries of one or more steps: operations by line, waits seen by the CUDA debug mode, compiled regions."""

    operations: dict[tuple[Line, str], Tally] = field(default_factory=dict)
    confirmed: collections.Counter[Line] = field(default_factory=collections.Counter)
    regions: dict[tuple[str, Line], None] = field(default_factory=dict)

    def add(self, other: Pages) -> None:
        for key, tally in other.operations.items():
            self.operations.setdefault(key, Tally()).add(tally.seconds, tally.count)
        self.confirmed.update(other.confirmed)
        self.regions.update(other.regions)


class Book:
    """Collects what the modes find. Entries count when their step ends (`step`); without any `step`, all count as one.

    `call` is the name of the current Python call, as the user writes it. `hosted` says that all its tensor arguments
    are host data; then the tensors that it creates are host data too.
    """

    def __init__(self, placement: Placement, stack: Stack, *, timed: bool) -> None:
        self.placement = placement
        self.stack = stack
        self.timed = timed
        self.call: str | None = None
        self.hosted = False
        self.entries = 0
        self.confirmations = 0
        self.steps = 0
        self._muted = 0
        self._open = Pages()
        self._closed = Pages()

    def record(self, operation: str, sight: Sight, seconds: float = 0.0, count: int = 1) -> None:
        """Records an operation that makes the host wait, at the line of `sight`."""
        if self._muted or sight.in_loader:
            return
        if sight.region is None:
            self.entries += 1
            key = ((sight.path, sight.line), operation)
            self._open.operations.setdefault(key, Tally()).add(seconds, count)

    def saw_region(self, sight: Sight) -> None:
        if sight.region is not None:
            self._open.regions[sight.region, (sight.path, sight.line)] = None

    def confirm(self, sight: Sight) -> None:
        """Records that the host did wait at this line: the CUDA debug mode warned, or the call waits by definition."""
        self.confirmations += 1
        if sight.region is None:
            self._open.confirmed[sight.path, sight.line] += 1

    @contextmanager
    def calling(self, name: str) -> Iterator[None]:
        """Inside this block, operations get the name of the Python call that leads to them."""
        before, self.call = self.call, name
        try:
            yield
        finally:
            self.call = before

    @contextmanager
    def given(self, hosted: bool) -> Iterator[None]:
        """Inside this block, notes whether the call has only host data as arguments."""
        before, self.hosted = self.hosted, hosted
        try:
            yield
        finally:
            self.hosted = before

    @contextmanager
    def muted(self) -> Iterator[None]:
        """Inside this block nothing is recorded: the call is recorded as a whole."""
        self._muted += 1
        try:
            yield
        finally:
            self._muted -= 1

    def step(self) -> None:
        """Ends an iteration."""
        self._closed.add(self._open)
        self._open = Pages()
        self.steps += 1

    def report(self, function: str | None, device: str | None, unchecked: str | None) -> SyncReport:
        pages = self._closed if self.steps else self._open
        steps = max(1, self.steps)
        by_line: dict[Line, list[Operation]] = {}
        for (line, name), tally in pages.operations.items():
            lost_s = tally.seconds / steps if self.timed else None
            by_line.setdefault(line, []).append(Operation(name, tally.count / steps, lost_s))
        for line, count in pages.confirmed.items():
            if line not in by_line:
                by_line[line] = [Operation("seen by the CUDA debug mode only", count / steps, None)]
        points = [
            _point(line, operations, pages.confirmed[line] / steps if device is not None else None)
            for line, operations in by_line.items()
        ]
        points.sort(key=lambda point: (-(point.lost_s or 0.0), -point.per_step, point.path, point.line))
        return SyncReport(
            function=None if function is None else printable(function),
            steps=steps,
            per_step=sum(point.per_step for point in points),
            device=device,
            unchecked=unchecked,
            points=tuple(points),
            not_inspected=tuple(CompiledRegion(printable(name), shown(at[0]), at[1]) for name, at in pages.regions),
        )


def _point(line: Line, operations: list[Operation], confirmed: float | None) -> SyncPoint:
    lost = [operation.lost_s for operation in operations if operation.lost_s is not None]
    return SyncPoint(
        path=shown(line[0]),
        line=line[1],
        per_step=sum(operation.per_step for operation in operations),
        operations=tuple(operations),
        confirmed=confirmed,
        lost_s=sum(lost) if lost else None,
    )


def shown(path: str) -> str:
    """A path as inert text; relative to the current folder if it is inside."""
    absolute = Path(os.path.abspath(path))  # not resolved: a link is shown as the user wrote it
    here = Path.cwd()
    return printable(absolute.relative_to(here) if absolute.is_relative_to(here) else absolute)
