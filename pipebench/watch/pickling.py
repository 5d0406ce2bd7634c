"""The hand-off inside a worker: its queue's feeder thread turns a batch into bytes and descriptors."""

from __future__ import annotations

import os
import sys
from time import perf_counter_ns, thread_time_ns
from typing import Any

from pipebench.watch.patches import Patches


class Meter:
    """What the feeder thread spent: wall and CPU nanoseconds, batches and bytes that crossed the pipe.

    High: the batch is made of many small objects, or of data that torch does not hand over through shared memory.
    """

    def __init__(self) -> None:
        self.wall = self.cpu = self.batches = self.bytes = 0

    def take(self) -> list[int]:
        taken = [self.wall, self.cpu, self.batches, self.bytes]
        self.wall = self.cpu = self.batches = self.bytes = 0
        return taken


meter = Meter()


def watch_queue(patches: Patches) -> None:
    """Times pickling in this process's queues (in a worker: the one queue to the script)."""
    module: Any = sys.modules["multiprocessing.queues"]
    plain: Any = module._ForkingPickler
    pid = os.getpid()

    class Timed(plain):  # type: ignore[misc]
        @classmethod
        def dumps(cls, obj: Any, protocol: Any = None) -> Any:
            if os.getpid() != pid:
                return plain.dumps(obj, protocol)
            began, cpu = perf_counter_ns(), thread_time_ns()
            data = plain.dumps(obj, protocol)
            meter.cpu += thread_time_ns() - cpu
            meter.wall += perf_counter_ns() - began
            meter.batches += 1
            meter.bytes += len(data)
            return data

    patches.replace(module, "_ForkingPickler", Timed)
