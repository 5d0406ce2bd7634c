"""Lesion patches from CT scans: window, denoise and normalise, cut a patch, classify it."""

import argparse
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SCAN = (80, 200, 200)
PATCH = 32


def preprocess(hu):
    """Hounsfield units to model input, with a 3-point smoothing along the slices."""
    x = np.clip(hu.astype(np.float32), -1000, 400)
    x = (x + 1000) / 1400
    x[1:-1] = (x[:-2] + x[1:-1] + x[2:]) / 3
    return np.sqrt(x)


class CTPatches(Dataset):
    def __init__(self, scans, patches_per_scan, cut_first):
        rng = np.random.default_rng(2)
        self.scans = [rng.integers(-1000, 800, SCAN, dtype=np.int16) for _ in range(scans)]
        self.patches_per_scan = patches_per_scan
        self.cut_first = cut_first

    def __len__(self):
        return len(self.scans) * self.patches_per_scan

    def corner(self, index):
        rng = np.random.default_rng(index)
        return tuple(int(rng.integers(1, side - PATCH - 1)) for side in SCAN)

    def __getitem__(self, index):
        scan = self.scans[index % len(self.scans)]
        z, y, x = self.corner(index)
        plane = (slice(y, y + PATCH), slice(x, x + PATCH))
        if self.cut_first:
            # one more slice on either side, for the smoothing
            patch = preprocess(scan[(slice(z - 1, z + PATCH + 1), *plane)])[1:-1]
        else:
            patch = preprocess(scan)[(slice(z, z + PATCH), *plane)]
        return torch.from_numpy(np.ascontiguousarray(patch))[None], float(index % 3 == 0)


class PatchNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv3d(1, 4, kernel_size=4, stride=4)
        self.fc = nn.Linear(4 * (PATCH // 4) ** 3, 1)

    def forward(self, x):
        return self.fc(torch.relu(self.conv(x)).flatten(1)).squeeze(1)


def get_args():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--batch-size", type=int, default=8)
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--prefetch", type=int, default=2)
    p.add_argument("--scans", type=int, default=6)
    p.add_argument("--cut-first", action="store_true", help="cut the patch, then preprocess it")
    return p.parse_args()


def main():
    args = get_args()
    torch.manual_seed(8)
    dataset = CTPatches(args.scans, 40 * args.batch_size // args.scans, args.cut_first)
    loader = DataLoader(
        dataset,
        batch_size=args.batch_size,
        shuffle=True,
        num_workers=args.workers,
        prefetch_factor=args.prefetch if args.workers else None,
        persistent_workers=bool(args.workers),
    )
    model = PatchNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    criterion = nn.BCEWithLogitsLoss()

    tic = time.perf_counter()
    for epoch in range(args.epochs):
        for it, (patches, lesion) in enumerate(loader):
            loss = criterion(model(patches), lesion.float())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            time.sleep(0.045)  # accelerator
            if it % 20 == 0:
                print(f"epoch {epoch} iter {it} loss {loss.item():.3f}", flush=True)
    toc = time.perf_counter()
    print(f"trained for {toc - tic:.2f} s")


if __name__ == "__main__":
    main()
