"""A training script that reads its own time with the one clock that needs no system call. For a busy machine.

    python loaded.py TRUTH.json --workers N --batches N --batch N

A system call is where the kernel takes the core away from a process whose time slice is used up. A clock of CPU time in
the planted work would attract this, and hide it if `watch` did the same. So here is pure computation between readings
of `perf_counter_ns`. The script writes the seconds of each stage per sample, and does not know whether it is watched.
"""

from __future__ import annotations

import argparse
import json
import warnings
import zlib
from time import perf_counter_ns
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import Compose

BLOCK = bytes(range(256)) * 1024
STAGES = ("sample", "first", "second", "collate")  # `sample` is the whole of `__getitem__`
UNITS = 14  # of about 65 µs, in each of the three parts of a sample
_spent = dict.fromkeys(STAGES, 0)


def crunch() -> None:
    for _ in range(UNITS):
        zlib.crc32(BLOCK)


class First:
    def __call__(self, value: int) -> int:
        began = perf_counter_ns()
        crunch()
        _spent["first"] += perf_counter_ns() - began
        return value


class Second:
    def __call__(self, value: int) -> int:
        began = perf_counter_ns()
        crunch()
        _spent["second"] += perf_counter_ns() - began
        return value


class Loaded(Dataset[Any]):
    def __init__(self, length: int) -> None:
        self.length = length
        self.transform = Compose([First(), Second()])

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        began = perf_counter_ns()
        crunch()
        found = self.transform(index)
        _spent["sample"] += perf_counter_ns() - began
        return found


def collate(samples: list[int]) -> dict[str, int]:
    """The batch is what its stages took, in nanoseconds."""
    began = perf_counter_ns()
    crunch()
    _spent["collate"] += perf_counter_ns() - began
    batch = dict(_spent)
    _spent.update(dict.fromkeys(STAGES, 0))
    return batch


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("truth")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--batch", type=int, default=8)
    args = parser.parse_args()
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    torch.set_num_threads(1)
    dataset = Loaded(args.batches * args.batch)
    sums = dict.fromkeys(STAGES, 0)
    for batch in DataLoader(dataset, args.batch, collate_fn=collate, num_workers=args.workers):
        for stage, spent in batch.items():
            sums[stage] += spent
    with open(args.truth, "w", encoding="utf-8") as file:
        json.dump({stage: spent * 1e-9 / len(dataset) for stage, spent in sums.items()}, file)


if __name__ == "__main__":
    main()
