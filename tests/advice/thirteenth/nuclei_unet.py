"""Nuclei segmentation in fluorescence microscopy with a compact U-Net."""
import argparse
import os
import tempfile
import time
from pathlib import Path

import cv2
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

cv2.setNumThreads(0)


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=int(os.environ.get("EPOCHS", 6)))
    p.add_argument("--data", type=Path, default=Path(os.environ.get("DATA_DIR") or tempfile.gettempdir()) / "nuclei_unet")
    p.add_argument("--batch-size", type=int, default=6)
    p.add_argument("--tile", type=int, default=96)
    p.add_argument("--workers", type=int, default=1)
    return p.parse_args()


def synthesise(root, n=216, side=128):
    (root / "img").mkdir(parents=True, exist_ok=True)
    (root / "mask").mkdir(exist_ok=True)
    rng = np.random.default_rng(1)
    for i in range(n):
        if (root / "mask" / f"{i:04d}.png").exists():
            continue
        mask = np.zeros((side, side), np.uint8)
        for _ in range(rng.integers(4, 14)):
            c = tuple(int(v) for v in rng.integers(0, side, 2))
            ax = tuple(int(v) for v in rng.integers(5, 14, 2))
            cv2.ellipse(mask, c, ax, float(rng.uniform(0, 180)), 0, 360, 255, -1)
        img = cv2.GaussianBlur(mask, (7, 7), 0) * 0.5 + rng.normal(40, 12, mask.shape)
        cv2.imwrite(str(root / "img" / f"{i:04d}.png"), np.clip(img, 0, 255).astype(np.uint8))
        cv2.imwrite(str(root / "mask" / f"{i:04d}.png"), mask)


class Nuclei(Dataset):
    def __init__(self, root, tile):
        self.images = sorted((root / "img").glob("*.png"))
        self.root, self.tile = root, tile

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        img = cv2.imread(str(self.images[i]), 0)
        mask = cv2.imread(str(self.root / "mask" / self.images[i].name), 0)
        y, x = np.random.randint(0, img.shape[0] - self.tile, 2)
        img, mask = (a[y:y + self.tile, x:x + self.tile] for a in (img, mask))
        k = np.random.randint(4)
        img, mask = np.rot90(img, k), np.rot90(mask, k)
        img = np.ascontiguousarray(img, dtype=np.float32) / 255
        mask = np.ascontiguousarray(mask > 0, dtype=np.float32)
        return torch.from_numpy(img)[None], torch.from_numpy(mask)[None]


def double(i, o):
    return nn.Sequential(
        nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(True),
        nn.Conv2d(o, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(True),
    )


class UNet(nn.Module):
    def __init__(self, w=16):
        super().__init__()
        self.d1, self.d2, self.d3 = double(1, w), double(w, 2 * w), double(2 * w, 4 * w)
        self.u2, self.u1 = double(6 * w, 2 * w), double(3 * w, w)
        self.out = nn.Conv2d(w, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        c = self.d3(F.max_pool2d(b, 2))
        b = self.u2(torch.cat([F.interpolate(c, scale_factor=2.0), b], 1))
        a = self.u1(torch.cat([F.interpolate(b, scale_factor=2.0), a], 1))
        return self.out(a)


def dice_loss(logits, mask):
    p = torch.sigmoid(logits)
    inter = (p * mask).sum((1, 2, 3))
    return 1 - (2 * inter + 1) / (p.sum((1, 2, 3)) + mask.sum((1, 2, 3)) + 1)


def main():
    args = parse()
    synthesise(args.data)
    torch.manual_seed(0)
    loader = DataLoader(Nuclei(args.data, args.tile), batch_size=args.batch_size, shuffle=True,
                        num_workers=args.workers, persistent_workers=args.workers > 0)
    net = UNet()
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs * len(loader))
    for epoch in range(args.epochs):
        t0 = time.perf_counter()
        total = torch.zeros(())
        for img, mask in loader:
            logits = net(img)
            loss = F.binary_cross_entropy_with_logits(logits, mask) + dice_loss(logits, mask).mean()
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            total += loss.detach()
        print(f"epoch {epoch + 1}/{args.epochs}  loss {total.item() / len(loader):.4f}  {time.perf_counter() - t0:.1f}s", flush=True)


if __name__ == "__main__":
    main()
