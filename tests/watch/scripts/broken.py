"""Breaks one part of pipebench, which its first argument names, and trains on a loader whose workers use its second.

Also without pipebench watching; in a spawned worker this file is run once more, and breaks the same part there.
"""

import sys

from pipebench.watch.record import patches
from pipebench.watch.script import phases
from pipebench.watch.stages import library_calls
from pipebench.watch.worker import batch_sums, fetching, pickling


def broken(*args, **kwargs):
    raise RuntimeError("injected")


PARTS = {
    "nothing": (sys, "_nothing"),
    "worker": (pickling, "watch_queue"),
    "start": (patches.Patches, "rebind_held"),
    "recording": (fetching, "recording_of"),
    "batch": (batch_sums.Sums, "batch"),
    "worker's end": (batch_sums.Sums, "write"),
    "leaf": (library_calls, "_watch_load"),
    "import": (library_calls, "watch_module"),
    "undo": (patches.Patches, "undo"),
    "end": (phases.LoopPhases, "finish"),
}
if sys.argv[1] in PARTS:
    owner, name = PARTS[sys.argv[1]]
    setattr(owner, name, broken)

import PIL.ImageFile  # noqa: E402
import torch  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402
from torchvision.transforms import Compose  # noqa: E402


class Samples(Dataset):
    def __init__(self):
        self.transform = Compose([float])

    def __len__(self):
        return 12

    def __getitem__(self, index):
        return torch.full((4,), self.transform(index))


class Stubborn(DataLoader):
    """Keeps the `worker_init_fn` that it was made with."""

    def __setattr__(self, name, value):
        if name == "worker_init_fn" and value is not None:
            raise AttributeError("not this one")
        super().__setattr__(name, value)


def main():
    kind = Stubborn if sys.argv[1] == "refused" else DataLoader
    loader = kind(Samples(), batch_size=4, num_workers=1, multiprocessing_context=sys.argv[2])
    sys.stdout.write(f"{[batch.sum().item() for batch in loader]}\n")


if __name__ == "__main__":
    main()
