"""A loop over a loader that runs one block of batches each time it is asked to, and says how long the block took.

    python looping.py        a line on standard input asks for a block; the answer is a line with the block's
                             nanoseconds of wall time and of CPU time

The first line that it writes has zeros and says that it is ready.

A plain loop and a watched one take turns, each in a process of its own, so that other load on the machine affects both
alike. The first block begins before the iterator is made, so nothing of the run is left out. A sample has eight spans
(seven transforms and `__getitem__`). It reads 64 KB, so that what was in the fastest cache is gone, and does no more:
the longer a sample works, the more its place in memory hides what is looked for.
"""

from __future__ import annotations

import sys
import time
import zlib
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import Compose

BATCH = 16
BLOCK = 16  # batches
BATCHES = 512  # the first 256 are written to the records one by one
READ = bytes(range(256)) * 256


def _passed(value: int) -> int:
    return value


class Samples(Dataset[Any]):
    def __init__(self) -> None:
        self.transform = Compose([_passed] * 7)

    def __len__(self) -> int:
        return BATCH * BATCHES

    def __getitem__(self, index: int) -> int:
        zlib.crc32(READ)
        found: int = self.transform(index)
        return found


def _say(wall: int, cpu: int) -> None:
    sys.stdout.write(f"{wall} {cpu}\n")
    sys.stdout.flush()


def main() -> None:
    torch.set_num_threads(1)
    loader = DataLoader(Samples(), BATCH, collate_fn=len)
    batches = None
    _say(0, 0)
    for _ in sys.stdin:
        began, cpu = time.perf_counter_ns(), time.process_time_ns()
        if batches is None:
            batches = iter(loader)
        for _ in range(BLOCK):
            next(batches)
        _say(time.perf_counter_ns() - began, time.process_time_ns() - cpu)


if __name__ == "__main__":
    main()
