"""Images per core-second of whole loaders that make the same crops: python tools/loader_speed.py [photos].

Each loader has two workers and hands batches of 32 uint8 images to a loop that only takes them: antialiased random
resized crops of 224, from files. A core-second is CPU time of the whole process tree: both workers with all their
threads, and the main process. So it is what an image costs the machine, also where other work runs on it.

The loaders are measured in turn, one pass over the images at a time. The workers live on between the passes; a first
pass of each is left out. "packed" reads files after `pipebench.native.packing.pack`.
"""

from __future__ import annotations

import argparse
import io
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from region_speed import images
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms.functional import pil_to_tensor
from torchvision.transforms.v2 import RandomResizedCrop

from pipebench import BatchInto, RandomResizedCropFromBytes, RingCollate, stats
from pipebench.native import packing, region

SIZE, BATCH, WORKERS = 224, 32, 2
Transform = Callable[[bytes], Any]


class Files(Dataset[Any]):
    """What `transform` makes of the bytes of each file, `times` over, and a label."""

    def __init__(self, folder: Path, transform: Transform, times: int) -> None:
        self.paths = sorted(map(str, folder.iterdir())) * times
        self.transform = transform

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        with open(self.paths[index], "rb") as file:
            return self.transform(file.read()), index


class PillowFirst:
    """The usual transform of bytes: Pillow decodes the whole image, torchvision's v2 crops and resizes the tensor."""

    def __init__(self) -> None:
        self.crop = RandomResizedCrop(SIZE, antialias=True)

    def __call__(self, data: bytes) -> Any:
        return self.crop(pil_to_tensor(Image.open(io.BytesIO(data)).convert("RGB")))


def ways() -> dict[str, tuple[bool, Transform, Any]]:
    """For each loader: whether it reads packed files, its transform and its collate function."""
    quick, exact = RandomResizedCropFromBytes(SIZE), RandomResizedCropFromBytes(SIZE, exact=True)
    return {
        "Pillow and torchvision v2": (False, PillowFirst(), None),
        "from bytes, RingCollate": (False, quick, RingCollate()),
        "from bytes, RingCollate, packed": (True, quick, RingCollate()),
        "BatchInto": (False, quick.draw, BatchInto(SIZE)),
        "BatchInto, packed": (True, quick.draw, BatchInto(SIZE)),
        "BatchInto, exact": (False, exact.draw, BatchInto(SIZE, exact=True)),
        "BatchInto, exact, packed": (True, exact.draw, BatchInto(SIZE, exact=True)),
    }


def cpu_s(process: int) -> float:
    """CPU time of a process with all its threads: the clock of clock_getcpuclockid(3), as Linux numbers it."""
    return time.clock_gettime(~process << 3 | 2)


def tree_s(loader: DataLoader[Any]) -> float:
    workers = loader._iterator._workers if loader._iterator is not None else []  # type: ignore[attr-defined]
    return sum(cpu_s(process) for process in (os.getpid(), *(worker.pid for worker in workers)))


def one_pass(loader: DataLoader[Any]) -> float:
    """Images per core-second."""
    before, count = tree_s(loader), 0
    for batch, _ in loader:
        assert batch.shape == (BATCH, 3, SIZE, SIZE) and batch.dtype == torch.uint8
        count += len(batch)
    return count / (tree_s(loader) - before)


def write(folder: Path, encoded: Sequence[bytes]) -> Path:
    folder.mkdir()
    for index, data in enumerate(encoded):
        (folder / f"{index:04}.jpg").write_bytes(data)
    return folder


def measured(name: str, options: argparse.Namespace, folder: Path) -> dict[str, list[float]]:
    encoded = images(name, options.images)
    plain, packed = write(folder / "plain", encoded), write(folder / "packed", [packing.pack(one) for one in encoded])
    loaders = {
        title: DataLoader(
            Files(packed if is_packed else plain, transform, options.times), BATCH, shuffle=True, drop_last=True,
            num_workers=WORKERS, collate_fn=collate, persistent_workers=True,
        )
        for title, (is_packed, transform, collate) in ways().items()
    }  # fmt: skip
    for loader in loaders.values():
        one_pass(loader)
    found: dict[str, list[float]] = {title: [] for title in loaders}
    for _ in range(options.rounds):
        for title, loader in loaders.items():
            found[title].append(one_pass(loader))
    return found


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("datasets", nargs="*", default=["photos"], help="embedded datasets: photos, web")
    parser.add_argument("--rounds", type=int, default=8, help="passes of each loader (default 8)")
    parser.add_argument("--images", type=int, default=32, help="images of each dataset (default 32)")
    parser.add_argument("--times", type=int, default=8, help="times that a pass reads each image (default 8)")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    sys.stdout.write(f"{region.library_name()}, torch {torch.__version__}, load average {os.getloadavg()[0]:.1f}\n")
    for name in options.datasets:
        with tempfile.TemporaryDirectory() as folder:
            found = measured(name, options, Path(folder))
        sys.stdout.write(f"\n{name}: {options.images} images, {WORKERS} workers, batches of {BATCH}\n")
        sys.stdout.write(f"{'images per core-second':<36} {'median':>7} {'least':>7} {'most':>7}   beside the first\n")
        first = [1 / one for one in next(iter(found.values()))]
        for title, rates in found.items():
            gain = stats.compare([1 / one for one in rates], first)
            sys.stdout.write(f"{title:<36} {statistics.median(rates):7.0f} {min(rates):7.0f} {max(rates):7.0f}")
            sys.stdout.write(f"   {gain.speedup:.2f}x ({gain.low:.2f} to {gain.high:.2f})\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
