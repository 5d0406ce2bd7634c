"""What is planted: fixed amounts of CPU work, and sleeps as long as the kernel made them.

The instrument has no part in the truth:

- Work is a number of equal units. The cost of a unit is known from units in a stage of their own (`REFERENCE`). So it
  follows the speed of the machine from sample to sample, and no clock is near the work that is judged.
- Wall time must come from a clock, because a busy machine takes the core away during the work. The clock is read
  innermost, inside everything that the instrument wraps. So the two readings include no cost of the instrument.
- Carriers are the code around the innermost readings, of a library or of the script. Their time is measured in a run
  that nobody watches.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from typing import Any

BLOCK = bytes(range(256)) * 1024  # fits the second-level cache; long, because each unit takes the GIL once
REFERENCE = "reference"
Amount = tuple[int, int, int, int]  # units of work; wall nanoseconds; CPU nanoseconds of the work; times planted
NOTHING: Amount = (0, 0, 0, 0)


def work(units: int) -> int:
    """Does `units` of CPU work, however long they take. Returns the CPU nanoseconds of this thread."""
    cpu = time.thread_time_ns()
    for _ in range(units):
        zlib.crc32(BLOCK)
    return time.thread_time_ns() - cpu


def plus(first: Amount, second: Amount) -> Amount:
    return (first[0] + second[0], first[1] + second[1], first[2] + second[2], first[3] + second[3])


class Ledger:
    """What one thread has planted, by stage. In a plain run, clocks around each stage also measure the carriers."""

    def __init__(self) -> None:
        self.amounts: dict[str, Amount] = {}
        self.outer = False
        self.carriers: dict[str, list[tuple[int, int]]] = {}
        self._began = 0
        self._wall = self._cpu = 0

    def begin(self) -> None:
        """Takes the innermost reading at which a stage begins. The next `end` belongs to it."""
        self._began = time.perf_counter_ns()

    def end(self, stage: str, units: int = 0, cpu: int = 0) -> None:
        wall = time.perf_counter_ns() - self._began
        self.amounts[stage] = plus(self.amounts.get(stage, NOTHING), (units, wall, cpu, 1))
        self._wall += wall
        self._cpu += cpu

    def plant(self, stage: str, units: int) -> None:
        self.begin()
        self.end(stage, units, work(units))

    def around(self, stage: str, act: Callable[[], Any]) -> Any:
        """Runs `act`. In a plain run, also notes what `act` took besides what is planted or noted inside it."""
        if not self.outer:
            return act()
        before = self._wall, self._cpu
        wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
        found = act()
        cpu = time.thread_time_ns() - cpu - (self._cpu - before[1])
        wall = time.perf_counter_ns() - wall - (self._wall - before[0])
        self.carriers.setdefault(stage, []).append((wall, cpu))
        self._wall += wall
        self._cpu += cpu
        return found

    def take(self) -> dict[str, Amount]:
        taken, self.amounts = self.amounts, {}
        return taken
