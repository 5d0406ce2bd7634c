"""A training script with planted costs, or with the reference loader: `tools/prediction.py` runs it again and again.

python tools/prediction_script.py CASE WORKERS SECONDS [FASTER]

CASE is a key of `PLANTED`, or `DATA:floats` or `DATA:uint8` for the reference loader over an embedded data set. It
trains for SECONDS, and prints the seconds of an iteration, without the first ones. FASTER divides the planted costs.
"""

import hashlib
import sys
import time
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

SAMPLES = 8  # of a planted batch
_BLOCK = bytes(2000)  # hashlib keeps the interpreter's lock for less than 2,048 bytes
_TURN = 512  # batches after which planted costs repeat


@dataclass(frozen=True)
class Planted:
    """What a batch and an iteration cost: seconds asleep, and hashes of 2,000 bytes (about 1.1 µs each).

    Each `period`-th batch sleeps `burst` times as long. `ahead` is the prefetch factor.
    """

    sleep_s: float = 0.0
    hashes: int = 0
    step_sleep_s: float = 0.0
    step_hashes: int = 0
    period: int = 0
    burst: float = 1.0
    ahead: int = 2


PLANTED = {
    "sleep": Planted(sleep_s=0.04),
    "sleep-step": Planted(sleep_s=0.04, step_sleep_s=0.012),
    "bursty": Planted(sleep_s=0.012, step_sleep_s=0.015, period=8, burst=12.0),
    "bursty-7": Planted(sleep_s=0.02, step_sleep_s=0.008, period=7, burst=8.0),
    "compute": Planted(hashes=7_000),
    "mixed": Planted(sleep_s=0.02, hashes=3_500, step_hashes=1_800),
    "busy-step": Planted(sleep_s=0.01, hashes=2_700, step_hashes=4_500),
    "light": Planted(sleep_s=0.003, step_sleep_s=0.001),
}


def compute(hashes: int) -> int:
    """Keeps a core and the interpreter's lock busy. A loop in Python would do too, but it does not repeat.

    Its speed changes by 30 % from process to process: `tools/prediction.py clocks`.
    """
    digest = hashlib.sha256()
    for _ in range(hashes):
        digest.update(_BLOCK)
    return digest.digest()[0]


class Costly(Dataset[Any]):
    """Samples that sleep and compute as planted. Batch k of the sampler's order has the cost of place k."""

    def __init__(self, planted: Planted, faster: float) -> None:
        self.planted, self.faster = planted, faster

    def __len__(self) -> int:
        return SAMPLES * _TURN * 1000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        planted = self.planted
        slow = planted.burst if planted.period and index // SAMPLES % planted.period == planted.period - 1 else 1.0
        self.wait(planted.sleep_s * slow / SAMPLES / self.faster)
        return torch.full((256,), float(compute(planted.hashes // SAMPLES) % 3)), index % 10

    def wait(self, seconds: float) -> None:
        """A stage of its own, which `tools/prediction.py` has timed."""
        if seconds:
            time.sleep(seconds)


class Images(Dataset[Any]):
    """Images of 3×224×224 that cross as float32, or as `uint8`. Each takes 1 ms to read and 0.7 ms to decode."""

    def __init__(self, uint8: bool) -> None:
        self.uint8 = uint8
        self.pixels = torch.randint(0, 256, (3, 224, 224), dtype=torch.uint8)

    def __len__(self) -> int:
        return SAMPLES * _TURN * 1000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        time.sleep(0.001)
        compute(600)
        image = self.pixels.clone()
        return (image if self.uint8 else as_floats(image)), index % 10


def as_floats(image: torch.Tensor) -> torch.Tensor:
    """A stage of its own, which `tools/prediction.py` has timed."""
    return image.float().div_(255).sub_(0.45).div_(0.22)


def loader_of(case: str, workers: int, faster: float) -> tuple[Any, Any]:
    """The loader, and the loop's own work besides a small model."""
    if case in ("images", "images-uint8"):
        return DataLoader(Images(case != "images"), SAMPLES, num_workers=workers), lambda: time.sleep(0.002)
    if ":" not in case:
        planted = PLANTED[case]
        ahead = planted.ahead if workers else None
        loader = DataLoader(Costly(planted, faster), SAMPLES, num_workers=workers, prefetch_factor=ahead)

        def work() -> None:
            compute(planted.step_hashes)
            time.sleep(planted.step_sleep_s)

        return loader, work
    from pipebench.reference.dataloader import reference
    from pipebench.reference.pipeline import BYTES, FLOATS
    from pipebench.results.loading import Loading
    from pipebench.task import Workload

    data, dtype = case.split(":")
    recipe = FLOATS if dtype == "floats" else BYTES
    return reference(Workload(data), Loading(workers), recipe)._loader, lambda: time.sleep(0.004)


def trained(case: str, workers: int, seconds: float, faster: float = 1.0) -> float:
    """Trains, and returns the seconds of an iteration."""
    torch.set_num_threads(1)
    model = torch.nn.Linear(256, 10)
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3)
    loader, work = loader_of(case, workers, faster)
    warm = max(10, 4 * workers)
    begin = now = time.perf_counter()
    number = 0
    for number, batch in enumerate(loader):
        now = time.perf_counter()
        if number <= warm:
            begin = now
        elif now - begin >= seconds and (number - warm) % max(1, workers) == 0:
            break
        work()
        features = batch[0].flatten()[: 8 * 256].reshape(8, 256).float()
        loss = model(features).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return (now - begin) / (number - warm)  # the end of the workers, which follows, is not of an iteration


if __name__ == "__main__":
    each_s = trained(sys.argv[1], int(sys.argv[2]), *(float(one) for one in sys.argv[3:]))
    sys.stdout.write(f"ended {each_s}\n")
