"""What torch's threads lose where others use their cores: training with all of them, and with as many as others leave.

    python tools/torch_threads.py --rounds 3 --save docs/results/torch_threads.jsonl
    python tools/torch_threads.py --report docs/results/torch_threads.jsonl

Small models train on the CPU on made-up samples, with torch's own number of threads and with fewer, in turn: beside
nobody, beside one worker of a DataLoader, and beside one busy process. Each is a process of its own. Only ratios of
neighbours count. It takes about ten minutes. Results depend on the machine: here, on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from pipebench.calibrate.under_load import busy
from pipebench.host.machine import usable_cores

BESIDE = ("nobody", "a worker", "a busy process")
_WARM, _SECONDS = 5, 4.0
_LOOPS = 8000  # turns of a loop that make a sample: about half a millisecond
_BATCH, _SIDE = 32, 32


def models() -> dict[str, Callable[[], Any]]:
    """The models by their names, from small operations to large ones."""
    from torch import nn

    def convolutions(*channels: int) -> nn.Module:
        pairs = zip((3, *channels), channels, strict=False)
        layers = [
            one
            for inside, outside in pairs
            for one in (
                nn.Conv2d(inside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU(), nn.MaxPool2d(2),
            )
        ]  # fmt: skip
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels[-1], 10))

    def rows(inner: nn.Module) -> nn.Module:
        return nn.Sequential(nn.Flatten(1, 2), inner)

    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.head = nn.GRU(_SIDE, 96, batch_first=True), nn.Linear(96, 10)

        def forward(self, found: Any) -> Any:
            return self.head(self.inner(found)[0][:, -1])

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.TransformerEncoderLayer(_SIDE, 4, 64, batch_first=True, dropout=0.0)
            self.head = nn.Linear(_SIDE, 10)

        def forward(self, found: Any) -> Any:
            return self.head(self.inner(found).mean(1))

    flat = 3 * _SIDE * _SIDE
    return {
        "MLP": lambda: nn.Sequential(nn.Flatten(), nn.Linear(flat, 256), nn.ReLU(), nn.Linear(256, 10)),
        "GRU": lambda: rows(Recurrent()),
        "transformer": lambda: rows(Attention()),
        "CNN": lambda: convolutions(32, 64),
    }


class Samples:
    """Images of noise. Python computes for each, in one thread."""

    def __len__(self) -> int:
        return 10**6

    def __getitem__(self, index: int) -> Any:
        import torch

        total = 0.0
        for turn in range(_LOOPS):
            total += turn * 0.5
        return torch.full((3, _SIDE, _SIDE), total % 1), index % 10


def rate(model: str, workers: int, threads: int) -> float:
    """Iterations per second in this process."""
    import torch
    from torch.utils.data import DataLoader, default_collate

    if threads:
        torch.set_num_threads(threads)
    torch.manual_seed(0)
    net = models()[model]()
    optimiser = torch.optim.Adam(net.parameters())
    batches: Iterator[Any] = iter(DataLoader(Samples(), _BATCH, num_workers=workers)) if workers else iter(())  # type: ignore[arg-type]
    ready = None if workers else default_collate([Samples()[one] for one in range(_BATCH)])
    taken, began = -_WARM, perf_counter()
    while perf_counter() - began < _SECONDS or taken < 1:
        images, labels = next(batches) if ready is None else ready
        loss = torch.nn.functional.cross_entropy(net(images), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        taken += 1
        if taken == 0:
            began = perf_counter()
    return taken / (perf_counter() - began)


def measured(model: str, beside: str, threads: int) -> float:
    """The same in a process of its own, beside somebody."""
    command = [sys.executable, os.fspath(Path(__file__).absolute()), "--one", model, str(int(beside == "a worker"))]
    with busy(int(beside == "a busy process")):
        done = subprocess.run([*command, str(threads)], capture_output=True, text=True, check=True)
    return float(done.stdout)


def report(lines: Sequence[dict[str, Any]]) -> str:
    """A row for each model: how much faster fewer threads are, beside each: the median, and all readings."""
    head = f"{'model':12} " + " ".join(f"{f'beside {one}':26}" for one in BESIDE)
    rows = [head.rstrip()]
    for model in dict.fromkeys(one["model"] for one in lines):
        cells = []
        for beside in BESIDE:
            found = sorted(
                one["fewer"] / one["all"] for one in lines if (one["model"], one["beside"]) == (model, beside)
            )
            each = f"({found[0]:.2f}–{found[-1]:.2f})" if found else ""
            cells.append(f"{f'{statistics.median(found):.2f}× {each}' if found else '-':26}")
        rows.append(f"{model:12} {' '.join(cells)}".rstrip())
    return "\n".join(rows) + "\n"


def main(arguments: Sequence[str]) -> None:
    """Measures, and prints the table."""
    if arguments[:1] == ["--one"]:
        sys.stdout.write(f"{rate(arguments[1], int(arguments[2]), int(arguments[3]))}\n")
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--save", type=Path, help="append the lines to this file")
    parser.add_argument("--report", type=Path, help="run nothing: print the table of these lines")
    asked = parser.parse_args(arguments)
    if asked.report is None:
        lines = []
        cores = usable_cores()
        for model in models():
            for beside in BESIDE * asked.rounds:
                fewer = max(1, int(cores) - 1)
                both = {"all": measured(model, beside, 0), "fewer": measured(model, beside, fewer)}
                lines.append({"model": model, "beside": beside, "cores": cores, "threads": fewer, **both})
                sys.stderr.write(f"{model} beside {beside}: {both['all']:.1f} and {both['fewer']:.1f} a second\n")
                if asked.save is not None:
                    with asked.save.open("a") as file:
                        file.write(json.dumps(lines[-1]) + "\n")
    else:
        lines = [json.loads(one) for one in asked.report.read_text().splitlines()]
    sys.stdout.write(report(lines))


if __name__ == "__main__":
    main(sys.argv[1:])
