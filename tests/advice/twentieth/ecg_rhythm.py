"""Rhythm classification of 12-lead ECG strips with a 1-D residual network."""
import os
import tempfile
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 10))
DATA = os.path.join(os.environ.get("DATA_DIR", tempfile.gettempdir()), "ecg_rhythm")
N_STRIPS = 1440
LEADS = 12
SAMPLES = 1000
CLASSES = 5
BATCH = 32


def synthesise():
    path = os.path.join(DATA, "strips.npy")
    if os.path.exists(path):
        return path
    os.makedirs(DATA, exist_ok=True)
    rng = np.random.default_rng(12)
    labels = rng.integers(0, CLASSES, N_STRIPS)
    t = np.arange(SAMPLES) / 250.0
    strips = np.empty((N_STRIPS, LEADS, SAMPLES), np.int16)
    for i, label in enumerate(labels):
        rate = 0.9 + 0.35 * label + rng.normal(0, 0.05)
        beat = np.exp(40.0 * (np.cos(2 * np.pi * rate * t + rng.uniform(0, 6)) - 1.0))
        gain = rng.normal(1.0, 0.3, (LEADS, 1))
        wave = gain * beat + rng.normal(0, 0.1, (LEADS, SAMPLES))
        strips[i] = np.clip(wave * 1000, -32000, 32000)
    np.save(os.path.join(DATA, "labels.npy"), labels)
    np.save(path, strips)
    return path


class StripDataset(Dataset):
    def __init__(self, path):
        self.strips = np.load(path, mmap_mode="r")
        self.labels = np.load(os.path.join(DATA, "labels.npy"))

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        strip = self.strips[i].astype(np.float32) * 1e-3
        return torch.from_numpy(strip), int(self.labels[i])


class ResidualBlock(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(cin, cout, 7, stride=stride, padding=3, bias=False),
            nn.BatchNorm1d(cout),
            nn.ReLU(inplace=True),
            nn.Conv1d(cout, cout, 7, padding=3, bias=False),
            nn.BatchNorm1d(cout),
        )
        self.skip = nn.Conv1d(cin, cout, 1, stride=stride, bias=False)

    def forward(self, x):
        return torch.relu(self.body(x) + self.skip(x))


class RhythmNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(
            ResidualBlock(LEADS, 48, 2),
            ResidualBlock(48, 64, 2),
            ResidualBlock(64, 96, 2),
        )
        self.head = nn.Linear(96, CLASSES)

    def forward(self, x):
        return self.head(self.blocks(x).mean(2))


def main():
    torch.manual_seed(42)
    dataset = StripDataset(synthesise())
    loader = DataLoader(
        dataset,
        batch_size=BATCH,
        shuffle=True,
        num_workers=1,
        persistent_workers=True,
        drop_last=True,
    )
    model = RhythmNet()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(EPOCHS):
        start = time.time()
        total, hits = torch.zeros(()), torch.zeros(())
        for strips, rhythm in loader:
            out = model(strips)
            loss = nn.functional.cross_entropy(out, rhythm)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            total += loss.detach()
            hits += (out.argmax(1) == rhythm).float().mean()
        n = len(loader)
        print(f"epoch {epoch}: loss {total.item() / n:.3f} acc {hits.item() / n:.3f} {time.time() - start:.1f}s", flush=True)


if __name__ == "__main__":
    main()
