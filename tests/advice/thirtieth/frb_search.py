#!/usr/bin/env python
"""Fast-radio-burst candidate classifier.

Input: SIGPROC-like filterbank files (one per telescope beam, 8-bit, time-major) and a
candidate list produced by the single-pulse search.  For every candidate we cut a dynamic
spectrum around the reported arrival time, dedisperse it at the reported DM and decide
whether it is astrophysical or interference.

The beam archive is mounted over the observatory network; `Archive` models the mount so the
script behaves the same on a laptop.
"""
import argparse
import csv
import os
import struct
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, Subset

NCHAN = 64
NSAMP = 16384
FCH1, FOFF = 1500.0, -4.6875        # MHz
TSAMP = 5.12e-4                     # s
KDM = 4.148808e3
HEADER = struct.Struct("<8sIIddd")


def get_args():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--data", default="data/frb_search")
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--window", type=int, default=256, help="samples per cut-out")
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--mount-rate", type=float, default=100e6, help="bytes/s of one stream")
    p.add_argument("--mount-latency", type=float, default=5e-4, help="s per request")
    p.add_argument("--seed", type=int, default=11)
    return p.parse_args()


# --------------------------------------------------------------------------- data
def delays(dm):
    f = FCH1 + FOFF * np.arange(NCHAN)
    return np.rint(KDM * dm * (f ** -2.0 - FCH1 ** -2.0) / TSAMP).astype(np.int64)


def make_data(root, beams=28, per_beam=32, seed=0):
    if os.path.exists(os.path.join(root, "candidates.csv")):
        return
    os.makedirs(root, exist_ok=True)
    rng = np.random.default_rng(seed)
    rows = []
    for b in range(beams):
        x = rng.normal(96, 12, size=(NSAMP, NCHAN)).astype(np.float32)
        starts = 200 + np.arange(per_beam) * ((NSAMP - 800) // per_beam)
        for s in starts:
            t0 = int(s + rng.integers(20, 120))
            dm = float(rng.uniform(20, 90))
            label = int(rng.random() < 0.5)
            amp = rng.uniform(14, 34)
            width = rng.uniform(1.5, 4.0)
            shift = delays(dm) if label else np.zeros(NCHAN, np.int64)
            t = np.arange(-12, 13)
            prof = amp * np.exp(-0.5 * (t / width) ** 2)
            for c in range(NCHAN):
                x[t0 + shift[c] - 12:t0 + shift[c] + 13, c] += prof
            rows.append((f"beam{b:03d}.fil", t0, f"{dm:.3f}", label))
        with open(os.path.join(root, f"beam{b:03d}.fil"), "wb") as f:
            f.write(HEADER.pack(b"FILTERBK", NCHAN, NSAMP, FCH1, FOFF, TSAMP))
            f.write(np.clip(x, 0, 255).astype(np.uint8).tobytes())
    order = rng.permutation(len(rows))
    with open(os.path.join(root, "candidates.csv"), "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(["file", "sample", "dm", "label"])
        w.writerows(rows[i] for i in order)


class Archive:
    """Read access to the mounted archive."""

    def __init__(self, root, rate, latency):
        self.root, self.rate, self.latency = root, rate, latency

    def read(self, name, offset=0, size=-1):
        with open(os.path.join(self.root, name), "rb") as f:
            f.seek(offset)
            buf = f.read(size)
        time.sleep(self.latency + len(buf) / self.rate)
        return buf


class Candidates(Dataset):
    def __init__(self, root, archive, window):
        with open(os.path.join(root, "candidates.csv"), newline="") as f:
            self.rows = [(r["file"], int(r["sample"]), float(r["dm"]), int(r["label"]))
                         for r in csv.DictReader(f)]
        self.archive = archive
        self.window = window

    def __len__(self):
        return len(self.rows)

    def cutout(self, name, begin):
        """(window, NCHAN) block of the beam starting at time sample `begin`."""
        buf = self.archive.read(name)
        beam = np.frombuffer(buf, np.uint8, offset=HEADER.size).reshape(-1, NCHAN)
        return beam[begin:begin + self.window]

    def __getitem__(self, i):
        name, t0, dm, label = self.rows[i]
        begin = min(max(t0 - 64, 0), NSAMP - self.window)
        x = self.cutout(name, begin).astype(np.float32)
        x = (x - x.mean(0)) / (x.std(0) + 1e-3)
        idx = (np.arange(self.window)[:, None] + delays(dm)[None, :]) % self.window
        dedispersed = np.take_along_axis(x, idx, axis=0)
        return torch.from_numpy(np.stack([x.T, dedispersed.T])), label


# --------------------------------------------------------------------------- model
class Net(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        def block(i, o, stride):
            return nn.Sequential(nn.Conv2d(i, o, 3, stride=stride, padding=1, bias=False),
                                 nn.BatchNorm2d(o), nn.ReLU(inplace=True))
        self.body = nn.Sequential(block(2, width, 2), block(width, 2 * width, 2),
                                  block(2 * width, 4 * width, 2), block(4 * width, 4 * width, 1))
        self.head = nn.Linear(4 * width, 2)

    def forward(self, x):
        return self.head(F.adaptive_avg_pool2d(self.body(x), 1).flatten(1))


def run_epoch(model, loader, opt=None):
    model.train(opt is not None)
    seen = correct = 0
    total = 0.0
    with torch.set_grad_enabled(opt is not None):
        for x, y in loader:
            logits = model(x)
            loss = F.cross_entropy(logits, y)
            if opt is not None:
                opt.zero_grad(set_to_none=True)
                loss.backward()
                opt.step()
            total += loss.item() * len(y)
            correct += (logits.argmax(1) == y).sum().item()
            seen += len(y)
    return total / seen, correct / seen


def main():
    args = get_args()
    torch.manual_seed(args.seed)
    make_data(args.data)

    archive = Archive(args.data, args.mount_rate, args.mount_latency)
    data = Candidates(args.data, archive, args.window)
    n_val = len(data) // 8
    train = Subset(data, range(n_val, len(data)))
    val = Subset(data, range(n_val))
    kw = dict(batch_size=args.batch_size, num_workers=args.workers, persistent_workers=True)
    train_loader = DataLoader(train, shuffle=True, drop_last=True, **kw)
    val_loader = DataLoader(val, **kw)

    model = Net()
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-2)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)
    for epoch in range(args.epochs):
        tl, ta = run_epoch(model, train_loader, opt)
        vl, va = run_epoch(model, val_loader)
        sched.step()
        print(f"epoch {epoch} train {tl:.4f}/{ta:.3f} val {vl:.4f}/{va:.3f}", flush=True)
    torch.save(model.state_dict(), os.path.join(args.data, "frb_net.pt"))


if __name__ == "__main__":
    main()
