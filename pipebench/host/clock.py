"""How long a block takes, on the host or on the device."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol


class Clock(Protocol):
    """Runs a block once and says how many seconds it took. The tests have a seeded fake."""

    def elapsed(self, block: Callable[[], object]) -> float: ...


class WallClock:
    """Host time by `perf_counter_ns`; the pair of calls costs about 0.2 µs."""

    def elapsed(self, block: Callable[[], object]) -> float:
        begin = time.perf_counter_ns()
        block()
        return (time.perf_counter_ns() - begin) * 1e-9


class DeviceClock:
    """Device time between two events on the current CUDA stream, read once both are complete.

    Work that the block puts on other streams counts only where the current stream waits for it.
    """

    def __init__(self) -> None:
        import torch

        self._cuda: Any = torch.cuda

    def elapsed(self, block: Callable[[], object]) -> float:
        begin, end = self._cuda.Event(enable_timing=True), self._cuda.Event(enable_timing=True)
        begin.record()
        block()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) * 1e-3
