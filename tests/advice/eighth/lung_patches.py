"""3D patch segmentation of synthetic chest CT with a registered lung prior."""
import os
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 6))
PATCH = 24
N_CASES = 24
PATCHES_PER_CASE = 8
ATLAS_SHAPE = (160, 192, 192)
NAS_LATENCY = 0.015   # the group share, measured from the compute nodes


class ConvBlock(nn.Sequential):
    def __init__(self, cin, cout):
        super().__init__(
            nn.Conv3d(cin, cout, 3, padding=1, bias=False),
            nn.InstanceNorm3d(cout, affine=True),
            nn.LeakyReLU(0.01, inplace=True),
        )


class TinyUNet(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.enc = ConvBlock(2, width)
        self.down = nn.MaxPool3d(2)
        self.mid = ConvBlock(width, width * 2)
        self.up = nn.Upsample(scale_factor=2)
        self.dec = ConvBlock(width * 3, width)
        self.head = nn.Conv3d(width, 1, 1)

    def forward(self, x):
        a = self.enc(x)
        b = self.up(self.mid(self.down(a)))
        return self.head(self.dec(torch.cat([a, b], dim=1)))


def make_study(root: Path, seed: int):
    rng = np.random.default_rng(seed)
    zz, yy, xx = np.meshgrid(*[np.linspace(-1, 1, s, dtype=np.float32) for s in ATLAS_SHAPE],
                             indexing="ij", sparse=True)
    r = (zz / 0.9) ** 2 + (yy / 0.6) ** 2 + ((np.abs(xx) - 0.4) / 0.35) ** 2
    atlas = np.clip(255 * np.exp(-r), 0, 255).astype(np.uint8)
    np.savez_compressed(root / "lung_atlas.npz", prob=atlas)
    for k in range(N_CASES):
        vol = rng.integers(-900, 200, size=(64, 64, 64), dtype=np.int16)
        mask = rng.random((64, 64, 64)) > 0.7
        vol[mask] += 300
        np.savez(root / f"case_{k:03d}.npz", ct=vol, seg=mask)


class PatchDataset(Dataset):
    def __init__(self, root: Path):
        self.root = root
        self.cases = sorted(root.glob("case_*.npz"))
        self.prior = None

    def __len__(self):
        return len(self.cases) * PATCHES_PER_CASE

    def _load_prior(self):
        # float atlas is too big to pickle around, so each process reads its own
        prob = np.load(self.root / "lung_atlas.npz")["prob"].astype(np.float32) / 255.0
        for axis in range(3):
            prob = (np.roll(prob, 1, axis) + prob + np.roll(prob, -1, axis)) / 3.0
        self.prior = np.log(np.clip(prob, 1e-4, 1 - 1e-4))

    def __getitem__(self, i):
        if self.prior is None:
            self._load_prior()
        time.sleep(NAS_LATENCY)
        with np.load(self.cases[i // PATCHES_PER_CASE]) as f:
            ct, seg = f["ct"], f["seg"]
        z, y, x = np.random.randint(0, 64 - PATCH, size=3)
        sl = np.s_[z:z + PATCH, y:y + PATCH, x:x + PATCH]
        img = np.clip((ct[sl].astype(np.float32) + 600) / 700, -1, 1)
        pri = self.prior[3 * z:3 * z + PATCH, 3 * y:3 * y + PATCH, 3 * x:3 * x + PATCH]
        if np.random.rand() < 0.5:
            img, pri, lab = img[..., ::-1], pri[..., ::-1], seg[sl][..., ::-1]
        else:
            lab = seg[sl]
        x = torch.from_numpy(np.stack([img, pri]).astype(np.float32))
        return x, torch.from_numpy(lab[None].astype(np.float32))


def soft_dice(logits, target):
    p = logits.sigmoid()
    inter = (p * target).sum((1, 2, 3, 4))
    return 1 - (2 * inter / (p + target).sum((1, 2, 3, 4))).mean()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    np.random.seed(0)
    root = Path(tempfile.mkdtemp(prefix="lung_"))
    make_study(root, seed=0)
    loader = DataLoader(
        PatchDataset(root),
        batch_size=4,
        shuffle=True,
        num_workers=2,
    )
    model = TinyUNet()
    optim = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True)
    bce = nn.BCEWithLogitsLoss()

    for epoch in range(EPOCHS):
        start, losses = time.time(), []
        for x, y in loader:
            out = model(x)
            loss = bce(out, y) + soft_dice(out, y)
            optim.zero_grad(set_to_none=True)
            loss.backward()
            optim.step()
            losses.append(loss.item())
        print(f"[{epoch:02d}] loss={np.mean(losses):.4f} t={time.time() - start:.1f}", flush=True)

    shutil.rmtree(root)


if __name__ == "__main__":
    main()
