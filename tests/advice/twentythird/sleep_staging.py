"""Sequence-to-sequence sleep staging on two EEG channels: a CNN per 30 s window, then temporal convolutions."""
import argparse
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

DIR = Path(__file__).resolve().parent / "data" / "sleep_staging"
STAGES = ["W", "N1", "N2", "N3", "REM"]
RATE, WIN, NIGHT = 16, 16 * 30, 640
RECORDS, CONTEXT = 44, 20


def make_data():
    DIR.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(2024)
    trans = np.full((5, 5), 0.02) + 0.9 * np.eye(5)
    trans /= trans.sum(1, keepdims=True)
    bands = [(4.5, 1.0), (3.0, 0.8), (2.0, 1.4), (0.8, 2.5), (3.6, 0.6)]
    t = np.arange(WIN) / RATE
    for r in range(RECORDS):
        y = np.zeros(NIGHT, np.int64)
        for i in range(1, NIGHT):
            y[i] = rng.choice(5, p=trans[y[i - 1]])
        x = rng.normal(0, 1.0, (NIGHT, 2, WIN)).astype(np.float32)
        for i in range(NIGHT):
            f, a = bands[y[i]]
            x[i] += a * np.sin(2 * np.pi * (f * rng.uniform(0.9, 1.1) * t + rng.uniform()))
        np.save(DIR / f"rec{r:02d}_eeg.npy", (x * 256).astype(np.int16))
        np.save(DIR / f"rec{r:02d}_hyp.npy", y)


class Nights(Dataset):
    def __init__(self, records, stride):
        self.eeg = [np.load(DIR / f"rec{r:02d}_eeg.npy", mmap_mode="r") for r in records]
        self.hyp = [np.load(DIR / f"rec{r:02d}_hyp.npy") for r in records]
        self.items = [(i, s) for i in range(len(self.eeg)) for s in range(0, NIGHT - CONTEXT + 1, stride)]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, k):
        rec, start = self.items[k]
        x = np.asarray(self.eeg[rec][start:start + CONTEXT], dtype=np.float32) / 256
        return torch.from_numpy(x), torch.from_numpy(self.hyp[rec][start:start + CONTEXT])


class Stager(nn.Module):
    def __init__(self, w=8):
        super().__init__()
        self.cnn = nn.Sequential(
            nn.Conv1d(2, w, 16, stride=8), nn.ReLU(),
            nn.Conv1d(w, 2 * w, 5, stride=2), nn.ReLU(),
            nn.Conv1d(2 * w, 2 * w, 5, stride=2), nn.ReLU(), nn.AdaptiveAvgPool1d(2))
        self.context = nn.Sequential(nn.Conv1d(4 * w, 48, 5, padding=2), nn.ReLU(), nn.Conv1d(48, 48, 5, padding=2), nn.ReLU())
        self.head = nn.Linear(48, len(STAGES))

    def forward(self, x):
        b, n = x.shape[:2]
        h = self.cnn(x.flatten(0, 1)).flatten(1).view(b, n, -1)
        return self.head(self.context(h.transpose(1, 2)).transpose(1, 2))


class Scores:
    """Macro F1 and Cohen's kappa over everything seen in this epoch."""

    def __init__(self):
        self.true, self.pred = [], []

    def update(self, logits, y):
        self.pred.extend(logits.argmax(-1).flatten().tolist())
        self.true.extend(y.flatten().tolist())

    def compute(self):
        true, pred = np.array(self.true), np.array(self.pred)
        f1 = []
        for c in range(len(STAGES)):
            tp = np.sum((true == c) & (pred == c))
            fp = np.sum((true != c) & (pred == c))
            fn = np.sum((true == c) & (pred != c))
            f1.append(2 * tp / max(2 * tp + fp + fn, 1))
        po = np.mean(true == pred)
        pe = sum(np.mean(true == c) * np.mean(pred == c) for c in range(len(STAGES)))
        return float(np.mean(f1)), float((po - pe) / (1 - pe + 1e-9))


class Trainer:
    def __init__(self, model, train, val, epochs):
        self.model, self.train, self.val, self.epochs = model, train, val, epochs
        self.opt = torch.optim.Adam(model.parameters(), lr=1e-3)
        self.log = open(DIR / "train_log.csv", "w")

    def fit(self):
        for epoch in range(self.epochs):
            t0 = time.time()
            f1, steps = self.train_epoch(epoch)
            vf1, vk = self.validate()
            print(f"epoch {epoch} steps {steps} F1 {f1:.3f} | val F1 {vf1:.3f} kappa {vk:.3f} | {time.time() - t0:.1f}s", flush=True)
        self.log.close()

    def train_epoch(self, epoch):
        self.model.train()
        scores = Scores()
        for step, (x, y) in enumerate(self.train):
            logits = self.model(x)
            loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            scores.update(logits.detach(), y)
            f1, kappa = scores.compute()
            self.log.write(f"{epoch},{step},{loss.item():.4f},{f1:.4f},{kappa:.4f}\n")
        return f1, step + 1

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        scores = Scores()
        for x, y in self.val:
            scores.update(self.model(x), y)
        return scores.compute()


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--make", action="store_true")
    args = ap.parse_args()
    if args.make or not (DIR / f"rec{RECORDS - 1:02d}_hyp.npy").exists():
        make_data()
    if not args.make:
        torch.manual_seed(0)
        train = DataLoader(Nights(range(36), stride=2), batch_size=16, shuffle=True, num_workers=1, persistent_workers=True)
        val = DataLoader(Nights(range(36, 44), stride=CONTEXT), batch_size=32)
        Trainer(Stager(), train, val, args.epochs).fit()
