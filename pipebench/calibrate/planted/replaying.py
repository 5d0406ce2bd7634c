"""A training script whose bound is known: its step time is planted, and its loader is slower than the step.

    python replaying.py TRUTH [--ready]

Every step is a sleep, timed innermost, and the backward pass of a small model. With `--ready` the batches are ready in
advance and nobody watches: that run shows what an iteration takes besides the sleep. TRUTH has a row of two numbers for
each iteration, in nanoseconds: how long the sleep took, and when the next batch was asked for. The file is mapped into
memory, because the process that measures a bound ends before the script's own end.
"""

from __future__ import annotations

import argparse
import itertools
import mmap
import struct
import time
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from pipebench.calibrate.planted.amounts import work

ITERATIONS = 2000  # in a pass: more than any run asks for
READY = 60
STEP_S = 0.02
LOADING = 100  # units for a batch: about 6 ms; with the sleep of LOADING_S, a batch is slower than a step
LOADING_S = 0.024
ROW = struct.Struct("<qq")


class Slow(Dataset[Any]):
    """Makes samples more slowly than the loop uses them, one sample per batch."""

    def __len__(self) -> int:
        return ITERATIONS

    def __getitem__(self, index: int) -> torch.Tensor:
        work(LOADING)
        time.sleep(LOADING_S)
        return torch.zeros(8)


def loop(batches: Any, rows: mmap.mmap) -> None:
    weight = torch.zeros(8, requires_grad=True)
    optimiser = torch.optim.SGD([weight], lr=0.1)
    for number, batch in enumerate(batches):
        began = time.perf_counter_ns()
        time.sleep(STEP_S)
        spent = time.perf_counter_ns() - began
        (batch * weight).sum().backward()
        optimiser.step()
        ROW.pack_into(rows, number * ROW.size, spent, time.perf_counter_ns())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("truth")
    parser.add_argument("--ready", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    with open(args.truth, "w+b") as file:
        file.truncate(ITERATIONS * ROW.size)
        rows = mmap.mmap(file.fileno(), 0)
        loop(
            itertools.repeat(torch.zeros(1, 8), READY) if args.ready else DataLoader(Slow(), 1, num_workers=1),
            rows,
        )


if __name__ == "__main__":
    main()
