"""How long a CUDA device lay idle while the loop waited for a batch. Nothing here synchronises.

One event is recorded on the current stream when `next()` is called and one when it returns. The first completes when
the device has done all earlier work, the second when the host has the batch and the device nothing before it, so the
time between them on the device's own clock is the device's idle time inside the wait.
"""

from __future__ import annotations

import sys
from collections import deque
from typing import Any

_MOST = 64


class IdleDevice:
    """The idle time of the current device over the waits of one pass. High: the device itself waits for data."""

    def __init__(self) -> None:
        self._begun: Any = None
        self._flying: deque[tuple[Any, Any]] = deque()
        self._idle_ns = 0
        self._waits = 0

    def begin(self) -> None:
        self._begun = _recorded()

    def end(self) -> None:
        if self._begun is not None and len(self._flying) < _MOST:
            ended = _recorded()
            if ended is not None:
                self._flying.append((self._begun, ended))
        self._begun = None
        self._collect()

    def _collect(self) -> None:
        while self._flying and self._flying[0][1].query():
            begun, ended = self._flying.popleft()
            self._idle_ns += int(begun.elapsed_time(ended) * 1e6)
            self._waits += 1

    def take(self) -> list[int] | None:
        """Idle nanoseconds and the waits that they are from, since the last call; None where no CUDA was in use."""
        if not self._waits:
            return None
        taken = [self._idle_ns, self._waits]
        self._idle_ns = self._waits = 0
        return taken


def _recorded() -> Any:
    """An event on the current stream; None where CUDA is not in use, or while a graph is being captured."""
    torch: Any = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_initialized() or cuda.is_current_stream_capturing():
        return None
    event = cuda.Event(enable_timing=True)
    event.record()
    return event
