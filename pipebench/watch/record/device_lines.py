"""What a CUDA device tells of an iteration, in the lines of a record file."""

from __future__ import annotations

from typing import NamedTuple


class DeviceWait(NamedTuple):
    """One wait for a batch, as a CUDA device sees it.

    `host` is the end of the wait on the host's clock. `idle_ns` is the device's idle time in the wait. `busy_ns` is the
    device's time from the end of the previous wait to the begin of this one (-1: unknown).
    """

    turn: int
    host: int
    idle_ns: int
    busy_ns: int


class DeviceIdleTime(NamedTuple):
    """The total idle time of a CUDA device in a number of waits, without those of start-up and the end of a pass.

    `besides_ns` is how long it had no training to do between the end of a training step and the next wait: it was
    idle, or did what the loop gave it there (None: not measured).
    """

    idle_ns: int
    waits: int
    besides_ns: int | None = None
