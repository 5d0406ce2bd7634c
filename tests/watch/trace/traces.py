"""What the Trace Event Format asks of a trace, checked on what was written."""

from __future__ import annotations

from typing import Any

Event = dict[str, Any]
Track = tuple[int, int]


def nanoseconds(microseconds: float) -> int:
    return round(microseconds * 1000)


def slices_of(events: list[Event]) -> dict[Track, list[Event]]:
    """The slices of each track in the order in which they are written."""
    found: dict[Track, list[Event]] = {}
    for one in events:
        if one["ph"] == "X":
            found.setdefault((one["pid"], one["tid"]), []).append(one)
    return found


def names_of(events: list[Event], kind: str = "thread_name") -> dict[Track, str]:
    return {(one["pid"], one["tid"]): one["args"]["name"] for one in events if one["ph"] == "M" and one["name"] == kind}


def check(events: list[Event], pinned: bool = False) -> None:
    """Fields, nesting and order on every track, a name for each, and arrows that start and end within slices.

    An arrow also passes through the thread that pins memory, where there is one.
    """
    assert {one["ph"] for one in events} <= {"X", "M", "s", "t", "f"}
    for one in events:
        assert isinstance(one["pid"], int) and isinstance(one["tid"], int) and isinstance(one["name"], str)
        assert one["ph"] == "M" or one["ts"] >= 0
    tracks = slices_of(events)
    assert set(tracks) <= set(names_of(events))
    assert {pid for pid, _ in tracks} <= {pid for pid, _ in names_of(events, "process_name")}
    for track in tracks.values():
        _check_nesting(track)
    _check_flows(events, tracks, ["pickle", "pin"] if pinned else ["pickle"])


def _check_nesting(track: list[Event]) -> None:
    """Written in the order of their begin, and each lies within the one that is open, or after it."""
    ends: list[int] = []
    last = 0
    for one in track:
        begin, end = nanoseconds(one["ts"]), nanoseconds(one["ts"]) + nanoseconds(one["dur"])
        assert begin >= last and end > begin, one
        while ends and ends[-1] <= begin:
            ends.pop()
        assert not ends or end <= ends[-1], one
        ends.append(end)
        last = begin


def flows_of(events: list[Event]) -> dict[int, list[Event]]:
    found: dict[int, list[Event]] = {}
    for one in events:
        if one["ph"] in "stf":
            found.setdefault(one["id"], []).append(one)
    return found


def _check_flows(events: list[Event], tracks: dict[Track, list[Event]], between: list[str]) -> None:
    for steps in flows_of(events).values():
        assert [one["ph"] for one in steps] == ["s", *"t" * (len(steps) - 2), "f"]
        assert len({(one["name"], one["cat"]) for one in steps}) == 1 and steps[-1]["bp"] == "e"
        times = [one["ts"] for one in steps]
        assert times == sorted(times)
        around = [holding(one, tracks) for one in steps]
        assert around[0][0]["name"] == "batch" and around[-1][0]["name"] == "iteration"
        assert [slices[0]["name"] for slices in around[1:-1]] == between
        innermost = [
            slices[-1]["ts"] for slices in around
        ]  # Perfetto turns an arrow round that leads to an older slice
        assert innermost == sorted(innermost)


def holding(flow: Event, tracks: dict[Track, list[Event]]) -> list[Event]:
    """The slices of its track within which a flow event lies, the innermost last."""
    at = nanoseconds(flow["ts"])
    return [
        one
        for one in tracks[flow["pid"], flow["tid"]]
        if nanoseconds(one["ts"]) <= at < nanoseconds(one["ts"]) + nanoseconds(one["dur"])
    ]
