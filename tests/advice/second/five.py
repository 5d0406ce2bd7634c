"""Rare classes are drawn more often: a sampler asks for one index after the other, with weights."""

import argparse
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Sampler


class Clips(Dataset):
    """Short clips of one recorder, as rows of a table."""

    def __init__(self, recorder, count, rare):
        rng = np.random.default_rng(recorder)
        self.labels = (rng.random(count) < rare).astype(np.int64)
        self.levels = rng.standard_normal((count, 8)).astype(np.float32)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        time.sleep(0.0015)  # a local disk
        return np.repeat(self.levels[index], 20), self.labels[index]


class Balanced(Sampler):
    """Draws with weights. Used labels get rarer, so the weights belong to the epoch."""

    def __init__(self, labels, draws, fixed):
        self.labels, self.draws, self.fixed = labels, draws, fixed
        self.rng = np.random.default_rng(0)

    def __len__(self):
        return self.draws

    def weights(self):
        counts = np.bincount(self.labels, minlength=2)
        weights = 1.0 / counts[self.labels]
        return weights / weights.sum()

    def __iter__(self):
        if self.fixed:
            yield from self.rng.choice(len(self.labels), self.draws, p=self.weights()).tolist()
            return
        for _ in range(self.draws):
            yield int(self.rng.choice(len(self.labels), p=self.weights()))


class Detector(nn.Module):
    def __init__(self, device_s):
        super().__init__()
        self.device_s = device_s
        self.head = nn.Linear(160, 2)

    def forward(self, levels):
        time.sleep(self.device_s)  # the accelerator
        return self.head(levels)


def epochs(model, loader, optimizer, count):
    """Trains, and yields the mean loss of each epoch."""
    for _ in range(count):
        total = 0.0
        for levels, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(levels), labels)
            loss.backward()
            optimizer.step()
            total += loss.item()
        yield total / len(loader)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--prefetch", type=int, default=2)
    parser.add_argument("--clips", type=int, default=120_000, help="clips of each of two recorders")
    parser.add_argument("--device-ms", type=float, default=24)
    parser.add_argument("--fixed", action="store_true", help="draw an epoch at once")
    args = parser.parse_args()

    torch.manual_seed(4)
    clips = ConcatDataset([Clips(recorder, args.clips, 0.03) for recorder in (1, 2)])
    labels = np.concatenate([part.labels for part in clips.datasets])
    sampler = Balanced(labels, 240, args.fixed)
    loader = DataLoader(
        clips, 12, sampler=sampler, num_workers=args.workers, prefetch_factor=args.prefetch, persistent_workers=True
    )
    model = Detector(args.device_ms / 1000)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    began = time.perf_counter()
    for epoch, loss in enumerate(epochs(model, loader, optimizer, args.epochs)):
        print(f"epoch {epoch}: loss {loss:.3f}", flush=True)
    print(f"trained for {time.perf_counter() - began:.2f} s")


if __name__ == "__main__":
    main()
