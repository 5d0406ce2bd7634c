#!/usr/bin/env python
# Precipitation nowcasting: 8 radar frames in, 4 frames out.
import argparse
import os
import time

import numpy as np
import torch
import torch.nn as nn
from scipy.ndimage import gaussian_filter
from torch.utils.data import DataLoader, Dataset

HERE = os.path.dirname(os.path.abspath(__file__))
DATA_DIR = os.path.join(HERE, "data", "radar_nowcast")
N_IN, N_OUT, SIZE, FRAMES = 8, 4, 64, 144


def make(days=36):
    os.makedirs(DATA_DIR, exist_ok=True)
    rng = np.random.default_rng(5)
    for day in range(days):
        base = gaussian_filter(rng.normal(size=(3 * SIZE, 3 * SIZE)), 5, mode="wrap")
        base = np.clip(base / base.std(), 0, None) * 60
        vy, vx = rng.uniform(-1.5, 1.5, 2)
        frames = np.empty((FRAMES, SIZE, SIZE), np.uint8)
        for t in range(FRAMES):
            moved = np.roll(base, (int(vy * t), int(vx * t)), (0, 1))[:SIZE, :SIZE]
            noise = rng.normal(0, 1.5, (SIZE, SIZE)) * (moved > 0)
            frames[t] = np.clip(moved * (1 + 0.3 * np.sin(t / 15)) + noise, 0, 255)
        np.savez_compressed(os.path.join(DATA_DIR, f"day{day:03d}.npz"), rain=frames,
                            minute=np.arange(FRAMES, dtype=np.int32) * 10, motion=np.array([vy, vx], np.float32))


class RadarDataset(Dataset):
    """Random windows of N_IN + N_OUT frames out of daily archives."""

    def __init__(self, days, windows_per_day=8, train=True):
        self.paths = [os.path.join(DATA_DIR, f"day{d:03d}.npz") for d in days]
        self.windows = windows_per_day
        self.train = train

    def __len__(self):
        return len(self.paths) * self.windows

    def __getitem__(self, idx):
        path = self.paths[idx // self.windows]
        last = FRAMES - N_IN - N_OUT
        if self.train:
            start = int(torch.randint(0, last + 1, (1,)))
        else:
            start = (idx % self.windows) * last // self.windows
        archive = np.load(path)
        past = np.stack([archive["rain"][start + i] for i in range(N_IN)])
        future = np.stack([archive["rain"][start + N_IN + i] for i in range(N_OUT)])
        hour = archive["minute"][start] / 60.0
        past = torch.from_numpy(past).float().div_(255.0)
        future = torch.from_numpy(future).float().div_(255.0)
        clock = torch.tensor([np.sin(2 * np.pi * hour / 24), np.cos(2 * np.pi * hour / 24)], dtype=torch.float32)
        if self.train and torch.rand(1) < 0.5:
            past, future = past.flip(-1), future.flip(-1)
        return past, clock, future


def block(cin, cout, stride=1):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class SmallUNet(nn.Module):
    def __init__(self, w=16):
        super().__init__()
        self.enc1 = block(N_IN + 2, w)
        self.enc2 = block(w, 2 * w, 2)
        self.enc3 = nn.Sequential(block(2 * w, 4 * w, 2), block(4 * w, 4 * w))
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.dec2 = block(6 * w, 2 * w)
        self.dec1 = block(3 * w, w)
        self.out = nn.Conv2d(w, N_OUT, 1)

    def forward(self, x, clock):
        c = clock[:, :, None, None].expand(-1, -1, *x.shape[-2:])
        a = self.enc1(torch.cat([x, c], 1))
        b = self.enc2(a)
        d = self.enc3(b)
        d = self.dec2(torch.cat([self.up(d), b], 1))
        d = self.dec1(torch.cat([self.up(d), a], 1))
        return x[:, -1:] + self.out(d)


def run_epoch(model, loader, opt=None):
    model.train(opt is not None)
    total, steps = 0.0, 0
    with torch.set_grad_enabled(opt is not None):
        for past, clock, future in loader:
            pred = model(past, clock)
            loss = ((pred - future) ** 2 * (1 + 4 * future)).mean()
            if opt is not None:
                opt.zero_grad()
                loss.backward()
                opt.step()
            total += loss.item()
            steps += 1
    return total / steps, steps


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--make", action="store_true")
    args = parser.parse_args()
    if args.make or not os.path.exists(os.path.join(DATA_DIR, "day035.npz")):
        make()
        if args.make:
            raise SystemExit
    torch.manual_seed(1)
    train_dl = DataLoader(RadarDataset(range(30)), batch_size=8, shuffle=True, num_workers=2,
                          persistent_workers=True)
    val_dl = DataLoader(RadarDataset(range(30, 36), train=False), batch_size=8)
    net = SmallUNet()
    optim = torch.optim.Adam(net.parameters(), 1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(optim, args.epochs)
    for ep in range(args.epochs):
        t = time.time()
        tr, n = run_epoch(net, train_dl, optim)
        va, _ = run_epoch(net, val_dl)
        sched.step()
        print(f"ep {ep:2d} steps {n} train {tr:.5f} val {va:.5f} {time.time() - t:.2f}s", flush=True)
