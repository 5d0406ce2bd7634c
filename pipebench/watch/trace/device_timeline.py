"""Places the device's work on the host's clock, from the durations between the device's own events. Pure.

An event cannot complete before the host has recorded it. It completes at once if the device has nothing left to do. So
a chain of durations is placed as early as possible, but no event may come before its recording.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipebench.watch.read.gather import Process
from pipebench.watch.record.device_lines import DeviceWait
from pipebench.watch.record.lines import LoopSums
from pipebench.watch.trace.tracks import DEVICE, Group, Slice, group

# The two clocks drift apart by about ten millionths, so no chain is longer than this.
_CHAIN = 32


def chains(waits: list[DeviceWait]) -> Iterator[list[DeviceWait]]:
    """The waits of one pass, divided into chains of at most `_CHAIN` consecutive waits."""
    chain: list[DeviceWait] = []
    for one in sorted(waits):
        if chain and (one.turn != chain[-1].turn + 1 or one.busy_ns < 0 or len(chain) == _CHAIN):
            yield chain
            chain = []
        chain.append(one)
    if chain:
        yield chain


def placed(chain: list[DeviceWait]) -> list[tuple[int, int, int, int]]:
    """For each wait, on the host's clock: (turn, end of the work before, end of the idle time, begin of that work)."""
    ends, reached = [], 0
    for place, (_, _, idle, busy) in enumerate(chain):
        reached += (busy if place else 0) + idle
        ends.append(reached)
    offset = max(host - end for (_, host, _, _), end in zip(chain, ends, strict=True))
    return [
        (turn, offset + end - idle, offset + end, offset + end - idle - (busy if place else 0))
        for place, ((turn, _, idle, busy), end) in enumerate(zip(chain, ends, strict=True))
    ]


def device_groups(process: Process) -> Iterator[Group]:
    """The device's "work" between waits (gaps inside it are not visible) and its idle time in the waits."""
    passes: dict[tuple[int, int], list[DeviceWait]] = {}
    for turns in process.of(LoopSums):
        passes.setdefault((turns.loader, turns.number_of_pass), []).extend(turns.device)
    for (loader, number), waits in passes.items():
        reached = 0
        for chain in chains(waits):
            for turn, worked, idled, began in placed(chain):
                about = {"loader": loader, "pass": number, "turn": turn}
                began, worked = max(began, reached), max(worked, reached)
                if worked > began:
                    yield group(process.pid, DEVICE, Slice("work", began, worked, {**about, "turn": turn - 1}))
                if idled > worked:
                    yield group(process.pid, DEVICE, Slice("idle in the wait", worked, idled, about))
                reached = max(reached, idled)
