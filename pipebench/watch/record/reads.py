"""Adds up reads by place: buckets, hosts and mounts. Standard library only."""

from __future__ import annotations

import contextlib
import weakref
from contextvars import ContextVar
from typing import Any

from pipebench.watch.record.read_lines import PlaceReads
from pipebench.watch.record.record_file import bucket

MOST = 16  # places of a process; further ones are one
_LONGEST = 200  # characters of a name
Place = tuple[str, str]
"""The protocol or type of file system, and the bucket, host or mount point."""
OTHERS: Place = ("", "")


class Retries:
    """What a library says of one read: how often it tried again, and whether it tells (`told`)."""

    __slots__ = ("count", "told")

    def __init__(self) -> None:
        self.count, self.told = 0, False

    def add(self, count: int) -> None:
        self.count, self.told = self.count + count, True


retries: ContextVar[Retries | None] = ContextVar("pipebench_retries", default=None)
"""Of the read that this thread waits for. A coroutine that it starts in the thread of a loop sees it, too."""


class _Sums:
    __slots__ = ("lengths", "open_ns", "opens", "read_bytes", "read_ns", "reads", "retries")

    def __init__(self) -> None:
        self.reads = self.read_ns = self.read_bytes = self.opens = self.open_ns = 0
        self.retries: int | None = None
        self.lengths: dict[int, int] = {}


class Reads:
    """The reads of one thread, by place. `busy`: it is in one, and what that calls is not counted again.

    `streams` are objects whose bytes come by and by, each with what was read of it so far. `pipes` are those of which
    each read counts, each with its place.
    """

    def __init__(self) -> None:
        self.busy = self.opening = False
        self.spent_ns = 0  # in reads, ever
        self.streams: weakref.WeakKeyDictionary[Any, Stream] = weakref.WeakKeyDictionary()
        self.pipes: weakref.WeakKeyDictionary[Any, Place] = weakref.WeakKeyDictionary()
        self._known: set[Place] = set()
        self._sums: dict[Place, _Sums] = {}

    def of(self, place: Place) -> _Sums:
        found = self._sums.get(place)
        if found is not None:
            return found
        place = place[0][:_LONGEST], place[1][:_LONGEST]
        if place not in self._known:
            if len(self._known) >= MOST:
                place = OTHERS
            else:
                self._known.add(place)
        found = self._sums.get(place)
        if found is None:
            found = self._sums[place] = _Sums()
        return found

    def add(self, place: Place, spent_ns: int, size: int, again: Retries | None = None) -> None:
        """A whole read."""
        self.part(place, spent_ns, size, again)
        self.complete(place, spent_ns)

    def part(self, place: Place, spent_ns: int, size: int, again: Retries | None = None) -> None:
        """A part of a read, which will be complete later."""
        one = self.of(place)
        one.read_ns += spent_ns
        one.read_bytes += size
        self.spent_ns += spent_ns
        if again is not None and again.told:
            one.retries = (one.retries or 0) + again.count

    def complete(self, place: Place, spent_ns: int) -> None:
        """Counts a read whose parts were added, and which took so long in all."""
        one = self.of(place)
        one.reads += 1
        key = bucket(max(0, spent_ns))
        one.lengths[key] = one.lengths.get(key, 0) + 1

    def opened(self, place: Place, spent_ns: int) -> None:
        one = self.of(place)
        one.opens += 1
        one.open_ns += max(0, spent_ns)

    def take(self) -> list[PlaceReads]:
        """What was added since the last call."""
        taken, self._sums = self._sums, {}
        return [
            PlaceReads(*place, one.reads, one.read_ns, one.read_bytes, one.opens, one.open_ns, one.retries, one.lengths)
            for place, one in taken.items()
        ]

    def include(self, other: Reads) -> None:
        """Takes over what another one added."""
        for one in other.take():
            mine = self.of((one.kind, one.name))
            mine.reads, mine.read_ns = mine.reads + one.reads, mine.read_ns + one.read_ns
            mine.read_bytes, mine.opens = mine.read_bytes + one.read_bytes, mine.opens + one.opens
            mine.open_ns += one.open_ns
            for key, count in one.lengths.items():
                mine.lengths[key] = mine.lengths.get(key, 0) + count


class Stream:
    """An object that is read by and by. It is one read, which is complete at its end, or when nobody holds it."""

    def __init__(self, reads: Reads, place: Place, spent_ns: int) -> None:
        self._reads, self._place, self._spent = reads, place, spent_ns
        self._over = False
        reads.part(place, spent_ns, 0)

    def add(self, spent_ns: int, size: int) -> None:
        self._spent += spent_ns
        self._reads.part(self._place, spent_ns, size)

    def end(self) -> None:
        if not self._over:
            self._over = True
            self._reads.complete(self._place, self._spent)

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # the interpreter may be ending
            self.end()
