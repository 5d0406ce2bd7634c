"""Land-cover classification of satellite tiles that lie on the lab's NAS (one spinning disc)."""

import argparse
import multiprocessing as mp
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

CLASSES = 6


class SpinningDisc:
    """The disc serves its readers in turns; the head moves whenever the turn changes."""

    def __init__(self):
        self.readers = mp.Value("i", 0)

    def read(self, index):
        with self.readers.get_lock():
            self.readers.value += 1
            n = self.readers.value
        try:
            time.sleep(0.003 * n * (1 + 0.3 * (n - 1)))
        finally:
            with self.readers.get_lock():
                self.readers.value -= 1
        rng = np.random.default_rng(index)
        return rng.integers(0, 4096, size=(4, 24, 24), dtype=np.uint16)


class TileDataset(Dataset):
    def __init__(self, n_tiles):
        self.disc = SpinningDisc()
        self.labels = np.random.default_rng(0).integers(0, CLASSES, n_tiles)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        time.sleep(0.008)  # round trip to the NAS
        bands = self.disc.read(i).astype(np.float32) / 4096
        bands[0] += 0.1 * self.labels[i]
        if i % 2:
            bands = bands[:, :, ::-1].copy()
        return torch.from_numpy(bands), int(self.labels[i])


def make_model():
    return nn.Sequential(
        nn.Conv2d(4, 8, 3, stride=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, CLASSES),
    )


def train_epoch(model, loader, opt, epoch):
    for step, (x, y) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        time.sleep(0.055)  # the accelerator
        if step % 10 == 0:
            print(f"epoch {epoch} step {step:3d} loss {loss.item():.3f}", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("-e", "--epochs", type=int, default=3)
    p.add_argument("-b", "--batch-size", type=int, default=16)
    p.add_argument("-j", "--workers", type=int, default=12)
    p.add_argument("--prefetch", type=int, default=2)
    p.add_argument("--tiles", type=int, default=400)
    args = p.parse_args()

    torch.manual_seed(1)
    model = make_model()
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    loader = DataLoader(
        TileDataset(args.tiles),
        batch_size=args.batch_size,
        shuffle=True,
        num_workers=args.workers,
        prefetch_factor=args.prefetch if args.workers else None,
        persistent_workers=args.workers > 0,
    )
    start = time.perf_counter()
    for epoch in range(args.epochs):
        train_epoch(model, loader, opt, epoch)
    print(f"trained for {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()
