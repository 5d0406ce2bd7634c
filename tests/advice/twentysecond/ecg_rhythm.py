"""Rhythm classes from Holter ECG: few labelled beats windows, many without label (FixMatch)."""
import os
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

FS = 125
WIN = 4 * FS
CLASSES = 4
THRESHOLD = 0.9
STORE = Path(__file__).parent / "data" / "holter"


def synth_holter(root, patients=12, minutes=8):
    if root.exists():
        return
    tmp = root.with_name(root.name + f"-{os.getpid()}")
    tmp.mkdir(parents=True)
    rng = np.random.default_rng(4)
    length = minutes * 60 * FS
    trace = np.empty((patients, length), np.float32)
    rhythm = np.empty((patients, length // WIN), np.int64)
    for p in range(patients):
        rhythm[p] = np.repeat(rng.integers(0, CLASSES, length // WIN // 10 + 1), 10)[:length // WIN]
        rate = np.repeat(np.array([1.0, 1.6, 2.3, 3.0])[rhythm[p]], WIN) / FS
        phase = np.cumsum(rate * rng.uniform(0.95, 1.05))
        trace[p] = np.exp(-((phase % 1 - 0.5) / 0.04) ** 2) + 0.15 * np.sin(np.arange(length) / 400)
    trace += 0.1 * rng.standard_normal(trace.shape, dtype=np.float32)
    np.save(tmp / "trace.npy", trace)
    np.save(tmp / "rhythm.npy", rhythm)
    try:
        os.rename(tmp, root)
    except OSError:
        pass


class Labelled(Dataset):
    def __init__(self, root, patients):
        self.trace = np.load(root / "trace.npy")
        self.rhythm = np.load(root / "rhythm.npy")
        self.items = [(p, w) for p in patients for w in range(self.rhythm.shape[1])]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        p, w = self.items[i]
        return torch.from_numpy(self.trace[p, w * WIN:(w + 1) * WIN])[None], self.rhythm[p, w]


class Unlabelled(Dataset):
    """A window may begin at any sample of any recording."""

    def __init__(self, root):
        self.trace = np.load(root / "trace.npy")
        self.starts = self.trace.shape[1] - WIN

    def __len__(self):
        return self.trace.shape[0] * self.starts

    def __getitem__(self, i):
        p, start = divmod(i, self.starts)
        x = self.trace[p, start:start + WIN]
        weak = x * np.float32(np.random.uniform(0.9, 1.1))
        strong = x + np.random.normal(0, 0.15, WIN).astype(np.float32)
        cut = np.random.randint(0, WIN - 80)
        strong[cut:cut + 80] = 0
        strong += np.interp(np.arange(WIN), np.linspace(0, WIN, 6), np.random.normal(0, 0.2, 6))
        return torch.from_numpy(weak)[None], torch.from_numpy(strong)[None]


def build_net(ch=24):
    def stage(i, o, s):
        return [nn.Conv1d(i, o, 7, stride=s, padding=3), nn.GroupNorm(4, o), nn.SiLU()]
    return nn.Sequential(*stage(1, ch, 2), *stage(ch, ch, 2), *stage(ch, 2 * ch, 2), *stage(2 * ch, 2 * ch, 2),
                         nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(2 * ch, CLASSES))


class Trainer:
    def __init__(self):
        self.labelled = DataLoader(Labelled(STORE, range(9)), batch_size=16, shuffle=True, drop_last=True)
        self.held_out = DataLoader(Labelled(STORE, range(9, 12)), batch_size=128)
        self.unlabelled = DataLoader(Unlabelled(STORE), batch_size=48, shuffle=True, drop_last=True)
        self.net = build_net()
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=1e-3)

    def step(self, x, y, weak, strong):
        logits = self.net(torch.cat([x, weak, strong]))
        lab, w, s = logits.split([len(x), len(weak), len(strong)])
        conf, pseudo = w.detach().softmax(1).max(1)
        semi = (F.cross_entropy(s, pseudo, reduction="none") * (conf > THRESHOLD)).mean()
        loss = F.cross_entropy(lab, y) + semi
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()

    def fit(self, epochs):
        for epoch in range(epochs):
            t0, losses = time.time(), []
            for x, y in self.labelled:
                weak, strong = next(iter(self.unlabelled))
                losses.append(self.step(x, y, weak, strong))
            print(f"epoch {epoch}: loss {np.mean(losses):.4f} acc {self.test():.3f} {time.time() - t0:.1f}s", flush=True)

    @torch.inference_mode()
    def test(self):
        hits = [(self.net(x).argmax(1) == y).float() for x, y in self.held_out]
        return torch.cat(hits).mean().item()


if __name__ == "__main__":
    torch.manual_seed(42)
    np.random.seed(42)
    synth_holter(STORE)
    Trainer().fit(int(os.environ.get("EPOCHS", 12)))
