"""Toy liver segmentation on synthetic CT volumes: patch-wise 3D U-Net, one random crop per case and epoch."""
import os
import random
import shutil
import tempfile
from functools import partial

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 7))
N_CASES = 84
PATCH = (24, 24, 24)
TARGET_SPACING = 1.5  # mm, isotropic
HU_WINDOW = (-150.0, 250.0)


def write_cases(folder, n):
    """Ellipsoids in noise, anisotropic spacing like the real scans."""
    rng = np.random.default_rng(7)
    zz, yy, xx = np.meshgrid(np.arange(28), np.arange(72), np.arange(72), indexing="ij")
    noise = rng.normal(0, 40, (40, 72, 72))
    for i in range(n):
        c = rng.uniform((10, 25, 25), (18, 47, 47))
        r = rng.uniform((5, 12, 12), (9, 20, 20))
        seg = (((zz - c[0]) / r[0]) ** 2 + ((yy - c[1]) / r[1]) ** 2 + ((xx - c[2]) / r[2]) ** 2) < 1
        o = rng.integers(0, 12)
        hu = noise[o:o + 28] + np.where(seg, 110, 30)
        np.savez(os.path.join(folder, f"case_{i:03d}.npz"),
                 ct=hu.astype(np.int16), seg=seg.astype(np.uint8),
                 spacing=np.array([4.0, 2.0, 2.0], dtype=np.float32))


def load_case(path):
    """Read, window, resample to isotropic spacing, z-score inside the body."""
    with np.load(path) as f:
        ct = torch.from_numpy(f["ct"].astype(np.float32))
        seg = torch.from_numpy(f["seg"].astype(np.float32))
        spacing = f["spacing"]
    size = [int(round(s * sp / TARGET_SPACING)) for s, sp in zip(ct.shape, spacing)]
    ct = F.interpolate(ct[None, None], size=size, mode="trilinear", align_corners=False)[0, 0]
    seg = F.interpolate(seg[None, None], size=size, mode="nearest")[0, 0]
    ct = ct.clamp(*HU_WINDOW)
    lo, hi = np.percentile(ct.numpy(), [0.5, 99.5])
    body = ct[(ct > lo) & (ct < hi)]
    ct = (ct - body.mean()) / (body.std() + 1e-6)
    return ct.numpy(), seg.numpy()


def random_crop(ct, seg, patch):
    start = [random.randint(0, s - p) for s, p in zip(ct.shape, patch)]
    sl = tuple(slice(a, a + p) for a, p in zip(start, patch))
    return ct[sl], seg[sl]


class CaseDataset(Dataset):
    def __init__(self, folder):
        self.paths = sorted(os.path.join(folder, f) for f in os.listdir(folder))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        ct, seg = load_case(self.paths[i])
        ct, seg = random_crop(ct, seg, PATCH)
        for ax in range(3):
            if random.random() < 0.5:
                ct, seg = np.flip(ct, ax), np.flip(seg, ax)
        ct = ct * random.uniform(0.9, 1.1) + random.uniform(-0.1, 0.1)
        return (torch.from_numpy(np.ascontiguousarray(ct, dtype=np.float32))[None],
                torch.from_numpy(np.ascontiguousarray(seg))[None])


conv3 = partial(nn.Conv3d, kernel_size=3, padding=1)


class SmallUNet(nn.Module):
    def __init__(self, w=6):
        super().__init__()
        self.e1 = nn.Sequential(conv3(1, w), nn.InstanceNorm3d(w), nn.ReLU())
        self.e2 = nn.Sequential(conv3(w, 2 * w), nn.InstanceNorm3d(2 * w), nn.ReLU())
        self.d1 = nn.Sequential(conv3(3 * w, w), nn.InstanceNorm3d(w), nn.ReLU())
        self.out = nn.Conv3d(w, 1, 1)

    def forward(self, x):
        a = self.e1(x)
        b = self.e2(F.max_pool3d(a, 2))
        b = F.interpolate(b, scale_factor=2, mode="nearest")
        return self.out(self.d1(torch.cat([a, b], 1)))


def dice_loss(logits, target):
    p = torch.sigmoid(logits)
    inter = (p * target).sum((1, 2, 3, 4))
    return 1 - ((2 * inter + 1) / (p.sum((1, 2, 3, 4)) + target.sum((1, 2, 3, 4)) + 1)).mean()


def main():
    random.seed(0)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    folder = tempfile.mkdtemp(prefix="ct_")
    try:
        write_cases(folder, N_CASES)
        loader = DataLoader(CaseDataset(folder), batch_size=2, shuffle=True, num_workers=0)
        net = SmallUNet()
        opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
        for epoch in range(EPOCHS):
            losses = []
            for ct, seg in loader:
                logits = net(ct)
                loss = dice_loss(logits, seg) + F.binary_cross_entropy_with_logits(logits, seg)
                opt.zero_grad()
                loss.backward()
                opt.step()
                losses.append(loss.item())
            print(f"epoch {epoch:2d}  loss {np.mean(losses):.4f}")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
