"""A training script whose truth is known: fixed amounts of work and sleep in every stage, timed by its own clock.

    python planted.py TRUTH.json --workers N --batches N --batch N [--skew] [--method fork]

Reading and decoding go Pillow's own lazy ways, with a format of ours behind them. It writes, per stage and per phase,
the wall and CPU time that its own two clock calls saw, and knows nothing of whoever may be watching.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import time
import zlib
from collections.abc import Callable
from typing import Any

import torch
from PIL import Image, ImageFile
from torch.utils.data import DataLoader, Dataset, get_worker_info
from torchvision.transforms import Compose

_BLOCK = bytes(range(256)) * 128
_HEAD = b"PLANTED!"
STAGES = ("read", "decode", "spin", "sleep", "getitem", "collate")
PHASES = ("wait", "forward", "backward", "optimiser", "other")


class Truth:
    """Wall and CPU nanoseconds of each stage, by clock calls of its own."""

    def __init__(self) -> None:
        self.wall = dict.fromkeys(STAGES, 0)
        self.cpu = dict.fromkeys(STAGES, 0)

    def clock(self, stage: str, act: Callable[[], Any]) -> Any:
        wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
        found = act()
        self.cpu[stage] += time.thread_time_ns() - cpu
        self.wall[stage] += time.perf_counter_ns() - wall
        return found

    def inside(self) -> int:
        """The wall time of what has its own row inside `__getitem__`."""
        return sum(self.wall[stage] for stage in ("read", "decode", "spin", "sleep"))

    def take(self) -> dict[str, dict[str, int]]:
        taken = {"wall": self.wall, "cpu": self.cpu}
        self.wall, self.cpu = dict.fromkeys(STAGES, 0), dict.fromkeys(STAGES, 0)
        return taken


truth = Truth()
skewed: list[bool] = []


def work(units: int, sleep_s: float = 0.0) -> None:
    """A fixed amount of CPU work, however long it takes, then a sleep. Later workers have more, where asked for."""
    info = get_worker_info()
    for _ in range(units * (1 + info.id if info is not None and skewed else 1)):
        zlib.crc32(_BLOCK)
    if sleep_s:
        time.sleep(sleep_s)


class PlantedDecoder(ImageFile.PyDecoder):
    def decode(self, buffer: Any) -> tuple[int, int]:
        work(40)
        self.set_as_raw(bytes(16))
        return -1, 0


class PlantedImage(ImageFile.ImageFile):
    format = "PLANTED"

    def _open(self) -> None:
        work(10, 0.0003)
        self._mode, self._size = "L", (4, 4)
        self.tile = [ImageFile._Tile("planted", (0, 0, 4, 4), 0, ())]


class Spin:
    def __call__(self, image: Any) -> Any:
        truth.clock("decode", image.load)
        truth.clock("spin", lambda: work(30))
        return image


class Sleep:
    def __call__(self, image: Any) -> torch.Tensor:
        slept: torch.Tensor = truth.clock("sleep", self.nap)
        return slept

    @staticmethod
    def nap() -> torch.Tensor:
        work(0, 0.0005)
        return torch.zeros(8)


class Planted(Dataset[Any]):
    def __init__(self, length: int) -> None:
        self.length = length
        self.transform = Compose([Spin(), Sleep()])

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        began, inside = time.perf_counter_ns(), truth.inside()
        work(10)
        found = self.transform(truth.clock("read", lambda: Image.open(io.BytesIO(_HEAD))))
        truth.wall["getitem"] += time.perf_counter_ns() - began - (truth.inside() - inside)
        return found


def _collated(samples: list[torch.Tensor]) -> torch.Tensor:
    work(40, 0.0005)
    return torch.stack(samples)


def collate(samples: list[torch.Tensor]) -> tuple[torch.Tensor, dict[str, dict[str, int]]]:
    return truth.clock("collate", lambda: _collated(samples)), truth.take()


class Slow(torch.autograd.Function):
    """Identity, with work in its backward."""

    @staticmethod
    def forward(ctx: Any, value: Any) -> Any:
        return value.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        work(60)
        return gradient


class Descent(torch.optim.SGD):
    def step(self, closure: Any = None) -> Any:
        work(20)


def loop(loader: DataLoader[Any]) -> dict[str, Any]:
    """Trains on every batch; the moments between phases are read from the clock once each."""
    weight = torch.zeros(8, requires_grad=True)
    optimiser = Descent([weight], lr=0.1)
    total = {"wall": dict.fromkeys(STAGES, 0), "cpu": dict.fromkeys(STAGES, 0)}
    moments: list[int] = []
    batches = iter(loader)
    moments.append(time.perf_counter_ns())
    for images, spent in batches:
        moments.append(time.perf_counter_ns())
        work(80)
        loss: Any = Slow.apply((images * weight).sum())
        moments.append(time.perf_counter_ns())
        loss.backward()
        moments.append(time.perf_counter_ns())
        optimiser.step()
        moments.append(time.perf_counter_ns())
        work(20)
        for clock, stages in spent.items():
            for stage, nanoseconds in stages.items():
                total[clock][stage] += nanoseconds
        moments.append(time.perf_counter_ns())
    lengths = [after - before for before, after in itertools.pairwise(moments)]
    return {"phases": [lengths[at : at + len(PHASES)] for at in range(0, len(lengths), len(PHASES))], **total}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("truth")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--batches", type=int, default=30)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--skew", action="store_true")
    parser.add_argument("--method", default="fork")
    args = parser.parse_args()
    skewed.extend([True] if args.skew else [])
    torch.set_num_threads(1)
    Image.init()
    method = args.method if args.workers else None
    dataset = Planted(args.batches * args.batch)
    loader = DataLoader(
        dataset, args.batch, collate_fn=collate, num_workers=args.workers, multiprocessing_context=method
    )
    found = loop(loader)
    with open(args.truth, "w") as file:
        json.dump({"samples": len(dataset), **found}, file)


def _register() -> None:
    """In every process: the format, first in line, so that no other plugin is asked before it."""
    Image.register_open("PLANTED", PlantedImage, lambda head: head.startswith(_HEAD))
    Image.ID.remove("PLANTED")
    Image.ID.insert(0, "PLANTED")
    Image.register_decoder("planted", PlantedDecoder)


_register()

if __name__ == "__main__":
    main()
