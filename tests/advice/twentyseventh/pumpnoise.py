"""Fault classes of water pumps from microphone recordings."""
import argparse
import csv
import random
import wave
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

RATE, N_FFT, HOP, BANDS = 16000, 512, 160, 40


def synthesise(root, n=360, seconds=4):
    rng = np.random.default_rng(31)
    (root / "wav").mkdir(parents=True)
    t = np.arange(RATE * seconds) / RATE
    rows = []
    for i in range(n):
        label = int(rng.integers(5))
        hum = sum(rng.uniform(0.2, 1) * np.sin(2 * np.pi * f * t + rng.uniform(0, 6)) for f in (50, 100, 300))
        extra = [0 * t, np.sin(2 * np.pi * 1800 * t), np.sign(np.sin(2 * np.pi * 13 * t)) * rng.normal(size=t.size),
                 np.sin(2 * np.pi * 700 * t) * np.sin(2 * np.pi * 4 * t), rng.normal(size=t.size)][label]
        x = 0.2 * hum + 0.15 * extra + 0.2 * rng.normal(size=t.size)
        with wave.open(str(root / "wav" / f"rec{i:04d}.wav"), "wb") as w:
            w.setnchannels(1)
            w.setsampwidth(2)
            w.setframerate(RATE)
            w.writeframes((np.clip(x / 4, -1, 1) * 32000).astype("<i2").tobytes())
        rows.append((f"rec{i:04d}.wav", label, "valid" if i % 6 == 0 else "train"))
    with open(root / "manifest.csv", "w", newline="") as f:
        csv.writer(f).writerows([("file", "label", "split"), *rows])


class LogMel:
    def __init__(self):
        self.window = torch.hann_window(N_FFT)
        mel = lambda f: 2595 * np.log10(1 + f / 700)
        edges = 700 * (10 ** (np.linspace(mel(20), mel(RATE / 2), BANDS + 2) / 2595) - 1)
        bins = np.linspace(0, RATE / 2, N_FFT // 2 + 1)
        up = (bins - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
        down = (edges[2:, None] - bins) / (edges[2:] - edges[1:-1])[:, None]
        self.bank = torch.from_numpy(np.maximum(0, np.minimum(up, down))).float()

    def __call__(self, x):
        spec = torch.stft(x, N_FFT, HOP, window=self.window, return_complex=True)
        return torch.log(self.bank @ spec.abs().square() + 1e-6)


def read_wav(path, start=0, count=None):
    with wave.open(str(path)) as w:
        w.setpos(start)
        raw = w.readframes(count or w.getnframes())
    return torch.from_numpy(np.frombuffer(raw, "<i2").astype(np.float32) / 32768)


def load_manifest(root, split):
    with open(root / "manifest.csv", newline="") as f:
        return [(root / "wav" / r["file"], int(r["label"])) for r in csv.DictReader(f) if r["split"] == split]


def band_statistics(root):
    logmel = LogMel()
    total, square, frames = torch.zeros(BANDS), torch.zeros(BANDS), 0
    for path, _ in load_manifest(root, "train"):
        m = logmel(read_wav(path))
        total += m.sum(1)
        square += m.square().sum(1)
        frames += m.shape[1]
    mean = total / frames
    return mean[:, None], (square / frames - mean.square()).sqrt()[:, None]


class PumpClips(Dataset):
    def __init__(self, root, split, clip=RATE):
        self.items = load_manifest(root, split)
        self.train, self.clip = split == "train", clip
        self.logmel = LogMel()
        self.mean, self.std = band_statistics(root)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        path, label = self.items[i]
        start = random.randrange(3 * RATE) if self.train else RATE
        return (self.logmel(read_wav(path, start, self.clip)) - self.mean) / self.std, label


class PumpNet(nn.Module):
    def __init__(self, classes=5):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(BANDS, 64, 5, 2), nn.BatchNorm1d(64), nn.ReLU(),
            nn.Conv1d(64, 64, 5, 2), nn.BatchNorm1d(64), nn.ReLU(),
            nn.Conv1d(64, 96, 3), nn.BatchNorm1d(96), nn.ReLU())
        self.fc = nn.Linear(192, classes)

    def forward(self, x):
        h = self.body(x)
        return self.fc(torch.cat([h.mean(2), h.amax(2)], 1))


class PumpTrainer:
    def __init__(self, config):
        self.config = config
        self.root = Path(config["root"])
        torch.manual_seed(config["seed"])
        random.seed(config["seed"])
        self.model = PumpNet()
        self.loss = nn.CrossEntropyLoss(label_smoothing=0.05)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), config["lr"])
        self.schedule = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.9)
        self.epoch = 0

    def train_dataloader(self):
        order = torch.Generator().manual_seed(self.config["seed"] + self.epoch)
        return DataLoader(PumpClips(self.root, "train"), self.config["batch"], shuffle=True, generator=order)

    def val_dataloader(self):
        return DataLoader(PumpClips(self.root, "valid"), 30)

    def train_epoch(self):
        self.model.train()
        losses = []
        for x, y in self.train_dataloader():
            loss = self.loss(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
        self.schedule.step()
        return sum(losses) / len(losses)

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        hits = count = 0
        for x, y in self.val_dataloader():
            hits += (self.model(x).argmax(1) == y).sum().item()
            count += len(y)
        return hits / count

    def save(self):
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(),
                    "epoch": self.epoch}, self.root / "checkpoint.pt")

    def fit(self):
        while self.epoch < self.config["epochs"]:
            loss = self.train_epoch()
            acc = self.validate()
            print(f"epoch {self.epoch} loss {loss:.5f} val_acc {acc:.4f}", flush=True)
            self.epoch += 1
            self.save()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=7)
    parser.add_argument("--batch", type=int, default=10)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    root = Path(__file__).parent / "data" / "pumpnoise"
    if not (root / "manifest.csv").exists():
        synthesise(root)
    PumpTrainer({**vars(args), "root": root}).fit()


if __name__ == "__main__":
    main()
