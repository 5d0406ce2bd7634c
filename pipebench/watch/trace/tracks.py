"""Puts slices on tracks as the Trace Event Format requires: on one track, slices are nested or apart.

Times are integers, in nanoseconds of the monotonic clock, until they are written. So rounding cannot make them cross.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

# Tracks that are not threads of the system have numbers above the highest thread number (2^22).
DEVICE = 10_000_000
_SIDE = 20_000_000


@dataclass(frozen=True)
class Slice:
    """A named stretch of time."""

    name: str
    begin: int
    end: int
    args: dict[str, Any] = field(default_factory=dict)


@dataclass
class Group:
    """A slice and the slices inside it, in the order of their begin. They stay together on one track of one thread."""

    pid: int
    thread: int
    slices: list[Slice]
    track: int = 0

    @property
    def begin(self) -> int:
        return self.slices[0].begin

    @property
    def end(self) -> int:
        return self.slices[0].end

    def takes(self, other: Group) -> bool:
        """Whether `other`, which begins later, can lie on the same track."""
        return not any(
            one.begin < other.end and one.end > other.begin and not _inside(other, one) for one in self.slices
        )


def _inside(inner: Group, outer: Slice) -> bool:
    return outer.begin <= inner.begin and inner.end <= outer.end


def group(pid: int, thread: int, outer: Slice, inner: Iterable[Slice] = ()) -> Group:
    """`outer` and the `inner` slices, one after the other. Empty, overlapping or protruding slices are left out."""
    kept, reached = [outer], outer.begin
    for one in inner:
        if reached <= one.begin < one.end <= outer.end:
            kept.append(one)
            reached = one.end
    return Group(pid, thread, kept)


def lay(groups: Sequence[Group]) -> dict[tuple[int, int], int]:
    """Gives each group a track: that of its thread, or a further one if it would cross another group there.

    Returns the further tracks, each with the thread to which it belongs.
    """
    open_: dict[tuple[int, int], list[Group]] = {}
    further: dict[tuple[int, int], int] = {}
    for one in sorted((one for one in groups if one.end > one.begin), key=lambda one: (one.begin, -one.end)):
        for track in (one.thread, *(_SIDE + 100 * (one.thread % 100_000) + number for number in range(1, 100))):
            place = one.pid, track
            open_[place] = [other for other in open_.get(place, []) if other.end > one.begin]
            if all(other.takes(one) for other in open_[place]):
                open_[place].append(one)
                one.track = track
                if track != one.thread:
                    further[place] = one.thread
                break
    return further


@dataclass(frozen=True)
class Point:
    """Where an arrow touches a slice: a moment within the slice."""

    pid: int
    track: int
    at: int


class TraceWriter:
    """Makes events of the Trace Event Format. Moments are in microseconds from `origin`, the first moment."""

    def __init__(self, origin: int) -> None:
        self._origin = origin
        self._flows = 0

    def at(self, moment: int) -> float:
        return round((moment - self._origin) / 1000, 3)

    def named(self, kind: str, pid: int, track: int, **args: Any) -> dict[str, Any]:
        return {"ph": "M", "name": kind, "pid": pid, "tid": track, "args": args}

    def slices(self, one: Group) -> Iterator[dict[str, Any]]:
        for inner in one.slices:
            yield {
                "ph": "X", "name": inner.name, "pid": one.pid, "tid": one.track, "ts": self.at(inner.begin),
                "dur": round((inner.end - inner.begin) / 1000, 3), "args": inner.args,
            }  # fmt: skip

    def flow(self, points: Sequence[Point]) -> Iterator[dict[str, Any]]:
        """An arrow from the first point through the others to the last."""
        self._flows += 1
        for place, point in enumerate(points):
            kind = "s" if not place else "f" if place == len(points) - 1 else "t"
            event = {
                "ph": kind, "name": "batch", "cat": "batch", "id": self._flows, "pid": point.pid, "tid": point.track,
                "ts": self.at(point.at),
            }  # fmt: skip
            yield {**event, "bp": "e"} if kind == "f" else event
