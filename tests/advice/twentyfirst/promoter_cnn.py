"""Dilated CNN over DNA windows: predict three regulatory tracks around random loci."""
import argparse
import os
import time
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

DATA = Path(__file__).resolve().parent / "data" / "promoter_cnn"
CHROMS = [f"chr{i}" for i in range(1, 17)]
CHROM_LEN = 1_500_000


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=int(os.environ.get("EPOCHS", 8)))
    p.add_argument("--loci-per-epoch", type=int, default=640)
    p.add_argument("--window", type=int, default=1024)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--channels", type=int, default=40)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--seed", type=int, default=11)
    return p.parse_args()


def build_genome():
    DATA.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    kernel = np.hanning(201).astype(np.float32)
    kernel /= kernel.sum()
    for name in CHROMS:
        path = DATA / f"{name}.npz"
        if path.exists():
            continue
        seq = rng.integers(0, 4, CHROM_LEN).astype(np.uint8)
        gc = ((seq == 1) | (seq == 2)).astype(np.float32)
        smooth = np.convolve(gc, kernel, mode="same")
        tracks = np.stack([np.round((smooth * s) % 1.0 * 20) for s in (1.0, 3.0, 5.0)]).astype(np.uint8)
        tmp = DATA / f"{name}.tmp.npz"
        np.savez_compressed(tmp, seq=seq, tracks=tracks)
        tmp.rename(path)


@lru_cache(maxsize=8)
def load_chrom(name):
    with np.load(DATA / f"{name}.npz") as z:
        return z["seq"], z["tracks"]


class LociDataset(Dataset):
    """Random loci, listed chromosome by chromosome as in a BED file."""

    def __init__(self, n, window, seed):
        rng = np.random.default_rng(seed)
        per = n // len(CHROMS)
        self.loci = [
            (c, int(s)) for c in CHROMS for s in np.sort(rng.integers(0, CHROM_LEN - window, per))
        ]
        self.window = window
        self.onehot = torch.eye(4)

    def __len__(self):
        return len(self.loci)

    def __getitem__(self, i):
        chrom, start = self.loci[i]
        seq, tracks = load_chrom(chrom)
        s = slice(start, start + self.window)
        x = self.onehot[torch.from_numpy(seq[s].astype(np.int64))].t()
        y = torch.from_numpy(tracks[:, s].astype(np.float32) / 20.0)
        if torch.rand(()) < 0.5:
            x, y = x.flip(0, 1), y.flip(1)
        return x.contiguous(), y.contiguous()


class DilatedBlock(nn.Module):
    def __init__(self, c, dilation):
        super().__init__()
        self.norm = nn.BatchNorm1d(c)
        self.conv = nn.Conv1d(c, c, 5, padding=2 * dilation, dilation=dilation)
        self.point = nn.Conv1d(c, c, 1)

    def forward(self, x):
        return x + self.point(F.gelu(self.conv(F.gelu(self.norm(x)))))


class TrackNet(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.stem = nn.Conv1d(4, c, 15, padding=7)
        self.blocks = nn.Sequential(*[DilatedBlock(c, 2 ** i) for i in range(4)])
        self.head = nn.Conv1d(c, 3, 1)

    def forward(self, x):
        return torch.sigmoid(self.head(self.blocks(self.stem(x))))


def pearson(a, b):
    a, b = a - a.mean(-1, keepdim=True), b - b.mean(-1, keepdim=True)
    return ((a * b).sum(-1) / (a.norm(dim=-1) * b.norm(dim=-1) + 1e-6)).mean().item()


def main():
    args = get_args()
    torch.manual_seed(args.seed)
    build_genome()
    data = LociDataset(args.loci_per_epoch, args.window, args.seed)
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True, drop_last=True)
    model = TrackNet(args.channels)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs * len(loader))
    for epoch in range(args.epochs):
        t0 = time.time()
        losses = []
        for x, y in loader:
            pred = model(x)
            loss = F.mse_loss(pred, y)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            losses.append(loss.item())
        print(f"[{epoch + 1}/{args.epochs}] mse={np.mean(losses):.5f} "
              f"r={pearson(pred.detach(), y):.3f} time={time.time() - t0:.1f}s", flush=True)


if __name__ == "__main__":
    main()
