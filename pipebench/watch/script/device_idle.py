"""Measures how long a CUDA device is idle while the loop waits for a batch. Nothing here synchronises.

Two events are recorded on its current stream: one when `next()` is called, one when it returns. The first completes
when the device has finished all earlier work. The second completes when the host has the batch and the device has
finished all work before it. The time between them, on the device's own clock, is the device's idle time in the wait.
An event at the end of training, as a step of the optimiser, tells the same of what the loop does from there on.
"""

from __future__ import annotations

import sys
from collections import deque
from typing import Any

from pipebench.watch.record.device_lines import DeviceIdleTime, DeviceWait
from pipebench.watch.record.sampling import followed
from pipebench.watch.script.training_device import TrainingDevice

_MOST = 64


class IdleDevice:
    """The idle time of the device that trains, in the waits of one pass. A high value: it waits for data itself."""

    def __init__(self, device: TrainingDevice, number_of_pass: int = 0) -> None:
        self._device, self._number = device, number_of_pass
        self._index: int | None = None
        self._trained: Any = None
        self._left: Any = None
        self._begun: Any = None
        self._ended: Any = None
        self._flying: deque[tuple[Any, Any, Any, Any, int, int, bool]] = deque()
        self._placed: list[DeviceWait] = []
        self._idle_ns = 0
        self._waits = 0
        self._besides_ns: int | None = None

    def trained(self) -> None:
        """The loop has given the device all work of a backward or of an optimiser's step: the last such call counts."""
        if self._device.known is not None:
            self._trained = _recorded(self._device.known)

    def elsewhere(self) -> None:
        """The script has begun another loop since it trained: what follows is not this loop's."""
        self._trained = None

    def begin(self) -> None:
        self._index = self._device.index()
        self._left, self._trained = self._trained, None
        self._begun = _recorded(self._index)

    def end(self, host: int = 0, turn: int = 0, counts: bool = True) -> None:
        """Ends the wait for batch `turn` at `host` on the host's clock.

        `counts` is False for a wait that is no part of an iteration: for start-up, and for the end of a pass.
        """
        before, self._ended = self._ended, None
        if self._begun is not None and len(self._flying) < _MOST:
            self._ended = _recorded(self._index)
            if self._ended is not None:
                self._flying.append((before, self._left, self._begun, self._ended, host, turn, counts))
        self._left = self._begun = None
        if self._flying and not _captures(self._index):
            self._collect()

    def _collect(self) -> None:
        while self._flying and self._flying[0][3].query():
            before, left, begun, ended, host, turn, counts = self._flying.popleft()
            idle = _between(begun, ended)
            if idle is None:
                continue
            self._idle_ns += idle * counts
            self._waits += counts
            besides = _between(left, begun) if left is not None and counts else None
            if besides is not None:
                self._besides_ns = (self._besides_ns or 0) + max(0, besides)  # two streams may end in any order
            if followed(turn, self._number):  # the trace shows it
                busy = _between(before, begun) if before is not None else None
                self._placed.append(DeviceWait(turn, host, idle, -1 if busy is None else busy))

    def take(self) -> DeviceIdleTime | None:
        """The idle time since the last call; None if no wait was measured, as without CUDA."""
        if not self._waits:
            return None
        taken = DeviceIdleTime(self._idle_ns, self._waits, self._besides_ns)
        self._idle_ns, self._waits, self._besides_ns = 0, 0, None
        return taken

    def take_placed(self) -> list[DeviceWait]:
        """The single waits since the last call, of those that have a `turn`."""
        taken, self._placed = self._placed, []
        return taken


def _between(before: Any, after: Any) -> int | None:
    """The nanoseconds between two events. None: the script has changed its device, and two devices have two clocks."""
    same = getattr(before, "device", None) == getattr(after, "device", None)
    return int(before.elapsed_time(after) * 1e6) if same else None


def _captures(index: int | None) -> bool:
    """Whether the current stream of a device captures a CUDA graph. To ask for an event would spoil that."""
    if index is None:
        return False
    cuda: Any = sys.modules["torch"].cuda
    with cuda.device(index):
        return bool(cuda.is_current_stream_capturing())


def _recorded(index: int | None) -> Any:
    """A new event on the current stream of a device; None without a device, or while a CUDA graph is captured."""
    if index is None:
        return None
    cuda: Any = sys.modules["torch"].cuda
    with cuda.device(index):
        if cuda.is_current_stream_capturing():
            return None
        event = cuda.Event(enable_timing=True)
        event.record()
    return event
