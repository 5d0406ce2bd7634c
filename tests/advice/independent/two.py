"""Fine-tune a sentence classifier; features sit in one large archive file."""

import argparse
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Archive:
    """Stand-in for an HDF5/LMDB archive on a network drive."""

    def __init__(self, open_seconds):
        time.sleep(open_seconds)  # open the file, read its index

    def read(self, i):
        time.sleep(0.001)
        g = torch.Generator().manual_seed(i)
        return torch.randn(64, generator=g)


class FeatureDataset(Dataset):
    def __init__(self, size, open_seconds):
        self.size = size
        self.open_seconds = open_seconds
        self.archive = None  # a handle cannot be shared by processes: open it at first use

    def __len__(self):
        return self.size

    def __getitem__(self, i):
        if self.archive is None:
            self.archive = Archive(self.open_seconds)
        return {"x": self.archive.read(i), "y": i % 4}


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=5)
parser.add_argument("--size", type=int, default=640)
parser.add_argument("--bs", type=int, default=16)
parser.add_argument("--open-seconds", type=float, default=1.5)
parser.add_argument("--workers", type=int, default=2)
parser.add_argument("--prefetch", type=int, default=2)
parser.add_argument("--persistent", action="store_true")
parser.add_argument("--pin", action="store_true")


def run_epoch(model, loader, opt):
    losses = []
    for batch in loader:
        opt.zero_grad()
        loss = F.cross_entropy(model(batch["x"]), batch["y"])
        loss.backward()
        opt.step()
        time.sleep(0.004)  # rest of the step is done by the accelerator
        losses.append(loss.item())
    return sum(losses) / len(losses)


if __name__ == "__main__":
    args = parser.parse_args()
    torch.manual_seed(1)
    train_set = FeatureDataset(args.size, args.open_seconds)
    train_loader = DataLoader(
        train_set,
        batch_size=args.bs,
        shuffle=True,
        num_workers=args.workers,
        pin_memory=args.pin,
        prefetch_factor=args.prefetch if args.workers else None,
        persistent_workers=args.persistent and args.workers > 0,
    )
    model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 4))
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    start = time.perf_counter()
    for epoch in range(args.epochs):
        t = time.perf_counter()
        mean = run_epoch(model, train_loader, opt)
        print(f"[{epoch}] loss={mean:.3f} time={time.perf_counter() - t:.2f}s", flush=True)
    print(f"trained for {time.perf_counter() - start:.2f} s")
