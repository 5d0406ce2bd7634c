"""Patch-wise lesion segmentation on CT volumes with a small 3D encoder-decoder."""
import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from scipy import ndimage
from torch.utils.data import DataLoader, Dataset

HERE = Path(__file__).resolve().parent
ROOT = HERE / "data" / "chestct"
SHAPE = (56, 160, 160)


def prepare(root, cases=16, seed=11):
    if (root / "cases.json").exists():
        return
    root.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    zz, yy, xx = np.ogrid[:SHAPE[0], :SHAPE[1], :SHAPE[2]]
    names = []
    for c in range(cases):
        coarse = rng.normal(0, 1, tuple(s // 8 for s in SHAPE))
        vol = ndimage.zoom(coarse, 8, order=1) * 120 - 500 + rng.normal(0, 40, SHAPE)
        mask = np.zeros(SHAPE, bool)
        for _ in range(14):
            z, y, x = (rng.integers(8, s - 8) for s in SHAPE)
            r = rng.uniform(4, 9)
            mask |= (zz - z) ** 2 + (yy - y) ** 2 + (xx - x) ** 2 < r * r
        vol[mask] += 330
        vol += rng.uniform(-100, 100)
        np.save(root / f"case{c:02d}_img.npy", vol.astype(np.int16))
        np.save(root / f"case{c:02d}_seg.npy", mask.astype(np.uint8))
        names.append(f"case{c:02d}")
    (root / "cases.json").write_text(json.dumps(names))


def normalise(vol):
    """Robust intensity scaling to [0, 1] (scanners differ in offset)."""
    vol = vol.astype(np.float32)
    lo, hi = np.percentile(vol, (0.5, 99.5)).astype(np.float32)
    return np.clip((vol - lo) / (hi - lo), 0, 1)


class CTPatches(Dataset):
    def __init__(self, root, per_case=12, size=24):
        self.per_case = per_case
        self.size = size
        self.images, self.masks = [], []
        for name in json.loads((root / "cases.json").read_text()):
            self.images.append(np.load(root / f"{name}_img.npy"))
            self.masks.append(np.load(root / f"{name}_seg.npy"))

    def __len__(self):
        return len(self.images) * self.per_case

    def __getitem__(self, i):
        case = i // self.per_case
        image = normalise(self.images[case])
        mask = self.masks[case]
        z, y, x = (int(torch.randint(0, s - self.size + 1, ())) for s in image.shape)
        window = (slice(z, z + self.size), slice(y, y + self.size), slice(x, x + self.size))
        return torch.from_numpy(image[window].copy())[None], torch.from_numpy(mask[window].astype(np.float32))[None]


class SmallUNet3d(nn.Module):
    def __init__(self, c=4):
        super().__init__()
        self.enc1 = nn.Sequential(nn.Conv3d(1, c, 3, padding=1), nn.InstanceNorm3d(c), nn.ReLU())
        self.enc2 = nn.Sequential(nn.Conv3d(c, 2 * c, 3, stride=2, padding=1), nn.InstanceNorm3d(2 * c), nn.ReLU(),
                                  nn.Conv3d(2 * c, 2 * c, 3, padding=1), nn.ReLU())
        self.up = nn.ConvTranspose3d(2 * c, c, 2, stride=2)
        self.out = nn.Conv3d(2 * c, 1, 1)

    def forward(self, x):
        a = self.enc1(x)
        b = self.up(self.enc2(a))
        return self.out(torch.cat([a, b], 1))


class Trainer:
    def __init__(self, args):
        self.args = args
        torch.manual_seed(args.seed)
        self.net = SmallUNet3d()
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=args.lr)
        self.loader = DataLoader(
            CTPatches(ROOT), batch_size=args.batch_size, shuffle=True, num_workers=args.workers,
            persistent_workers=args.workers > 0, generator=torch.Generator().manual_seed(args.seed))

    @staticmethod
    def criterion(logits, target):
        p = torch.sigmoid(logits)
        dice = 1 - (2 * (p * target).sum() + 1) / (p.sum() + target.sum() + 1)
        return dice + F.binary_cross_entropy_with_logits(logits, target)

    def train_epoch(self):
        self.net.train()
        total = 0.0
        for image, target in self.loader:
            loss = self.criterion(self.net(image), target)
            self.opt.zero_grad(set_to_none=True)
            loss.backward()
            self.opt.step()
            total += loss.detach()
        return float(total) / len(self.loader)

    def fit(self):
        for epoch in range(self.args.epochs):
            start = time.perf_counter()
            loss = self.train_epoch()
            print(f"epoch {epoch + 1:2d}  loss {loss:.4f}  {time.perf_counter() - start:.1f} s", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--batch-size", type=int, default=8)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--workers", type=int, default=1)
    p.add_argument("--seed", type=int, default=0)
    args = p.parse_args()
    prepare(ROOT)
    Trainer(args).fit()


if __name__ == "__main__":
    main()
