"""One run in which recording is switched on and off by turns: what it costs a sample, beside two windows of neither.

    python switching.py READINGS.json --rounds N

Nobody else watches this. There are two data sets of eight spans a sample (seven transforms and `__getitem__`): one does
1 ms of work a sample, the other next to none. Each has an iterator from before the watching, which nothing is put into,
and one from after it. A round is a window of each kind, in a random order: off, off again, on.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import Compose

from pipebench.calibrate.planted.amounts import work
from pipebench.watch.launch.watched_script import WatchedScript
from pipebench.watch.record.recording import Settings

KINDS = ("off", "again", "on")
BATCH = 16
SETTLED = 300  # batches after which sums are written at intervals, and no longer one by one
WINDOWS = {"work": (15, 1), "bare": (0, 8)}  # units of work a sample; batches in a window


def _passed(value: int) -> int:
    return value


class Samples(Dataset[Any]):
    def __init__(self, units: int, length: int) -> None:
        self.units, self.length = units, length
        self.transform = Compose([_passed] * 7)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> int:
        if self.units:
            work(self.units)
        found: int = self.transform(index)
        return found


def iterator(name: str, windows: int) -> Iterator[Any]:
    units, batches = WINDOWS[name]
    length = BATCH * ((1 + batches) * windows + 1 + SETTLED)
    return iter(DataLoader(Samples(units, length), BATCH, collate_fn=len))


def window(batches: Iterator[Any], number: int) -> float:
    """Seconds a sample, after a batch that brings the caches back to what this window needs."""
    next(batches)
    began = time.perf_counter_ns()
    for _ in range(number):
        next(batches)
    return (time.perf_counter_ns() - began) * 1e-9 / number / BATCH


def measured(folder: str, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Seconds a sample in each window, by data set and kind of window."""
    off = {name: iterator(name, 2 * rounds) for name in WINDOWS}
    watched = WatchedScript(Settings(folder))
    watched.start()
    on = {name: iterator(name, rounds) for name in WINDOWS}
    readings: dict[str, dict[str, list[float]]] = {name: {kind: [] for kind in KINDS} for name in WINDOWS}
    for name in WINDOWS:
        window(on[name], SETTLED)
    chance = random.Random(0)
    for _ in range(rounds):
        for name, (_, batches) in WINDOWS.items():
            for kind in chance.sample(KINDS, len(KINDS)):
                watched.recording.on = kind == "on"
                readings[name][kind].append(window((on if kind == "on" else off)[name], batches))
    watched.recording.on = True
    watched.finish()
    return readings


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("readings")
    parser.add_argument("--rounds", type=int, default=160)
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="pipebench-calibrate-") as folder:
        readings = measured(folder, args.rounds)
    with open(args.readings, "w", encoding="utf-8") as file:
        json.dump(readings, file)


if __name__ == "__main__":
    main()
