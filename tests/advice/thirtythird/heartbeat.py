# Rhythm classification from short multi-lead ECG strips.
import argparse
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from scipy.ndimage import median_filter
from scipy.signal import butter, sosfiltfilt
from torch import nn
from torch.utils.data import DataLoader, Dataset

FS = 250
LEADS = 4
SECONDS = 8
STRIPS = 1200
RHYTHMS = ["sinus", "brady", "tachy", "afib", "pvc"]
QRS_WIN = 51
T_WIN = 151
SOS = butter(3, [0.5, 40.0], btype="bandpass", fs=FS, output="sos")


def beat(t, wide=1.0):
    return (0.12 * np.exp(-((t + 0.18) / 0.03) ** 2) + 1.1 * np.exp(-(t / (0.018 * wide)) ** 2)
            - 0.2 * np.exp(-((t - 0.04) / (0.015 * wide)) ** 2) + 0.3 * np.exp(-((t - 0.26) / 0.06) ** 2))


def synth_strip(rng, rhythm):
    t = np.arange(FS * SECONDS) / FS
    rate = {"sinus": 72, "brady": 48, "tachy": 125, "afib": 95, "pvc": 76}[rhythm] + rng.normal(0, 5)
    at, ecg = 0.3, np.zeros_like(t)
    while at < SECONDS:
        wide = 3.0 if rhythm == "pvc" and rng.random() < 0.3 else 1.0
        ecg += beat(t - at, wide)
        gap = 60.0 / rate
        at += gap * (rng.uniform(0.6, 1.5) if rhythm == "afib" else rng.normal(1.0, 0.03))
    leads = []
    for k in range(LEADS):
        wander = rng.uniform(0.2, 0.8) * np.sin(2 * np.pi * rng.uniform(0.1, 0.35) * t + rng.uniform(0, 6))
        leads.append((0.6 + 0.2 * k) * ecg + wander + rng.normal(0, 0.04, t.shape))
    return np.stack(leads)


def make_data(root):
    if (root / "labels.npy").exists():
        return
    root.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(11)
    labels = rng.integers(0, len(RHYTHMS), STRIPS)
    strips = np.stack([synth_strip(rng, RHYTHMS[y]) for y in labels])
    np.save(root / "strips.npy", (strips * 1000).astype(np.int16))
    np.save(root / "labels.npy", labels)


def remove_baseline(sig):
    drift = median_filter(sig, size=(1, QRS_WIN), mode="nearest")
    drift = median_filter(drift, size=(1, T_WIN), mode="nearest")
    return sig - drift


def clean(raw):
    sig = raw.astype(np.float32) / 1000.0
    sig = remove_baseline(sig)
    sig = sosfiltfilt(SOS, sig, axis=-1)
    scale = np.abs(sig).max(axis=-1, keepdims=True)
    return (sig / (scale + 1e-6)).astype(np.float32)


def augment(sig, gen):
    shift = int(torch.randint(0, FS, (1,), generator=gen))
    gain = 0.8 + 0.4 * torch.rand(LEADS, 1, generator=gen).numpy()
    return np.roll(sig, shift, axis=-1)[:, : FS * SECONDS - 200] * gain


class Strips(Dataset):
    def __init__(self, root, rows):
        self.raw = np.load(root / "strips.npy", mmap_mode="r")
        self.labels = np.load(root / "labels.npy")
        self.rows = rows
        self.visit = 0

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = int(self.rows[i])
        gen = torch.Generator().manual_seed(row * 131 + self.visit)
        sig = augment(clean(np.asarray(self.raw[row])), gen)
        return torch.from_numpy(np.ascontiguousarray(sig, dtype=np.float32)), int(self.labels[row])


class ResUnit(nn.Module):
    def __init__(self, c, dilation):
        super().__init__()
        self.a = nn.Conv1d(c, c, 7, padding=3 * dilation, dilation=dilation)
        self.b = nn.Conv1d(c, c, 7, padding=3)
        self.norm = nn.GroupNorm(8, c)

    def forward(self, x):
        return x + self.b(F.gelu(self.norm(self.a(x))))


def make_model(width):
    return nn.Sequential(nn.Conv1d(LEADS, width, 15, stride=4, padding=7), nn.GELU(),
                         ResUnit(width, 1), ResUnit(width, 2), nn.MaxPool1d(2), ResUnit(width, 4),
                         nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(width, len(RHYTHMS)))


def run_epoch(model, loader, optimizer=None):
    model.train(optimizer is not None)
    total = correct = seen = 0
    with torch.set_grad_enabled(optimizer is not None):
        for sig, y in loader:
            logits = model(sig)
            loss = F.cross_entropy(logits, y)
            if optimizer is not None:
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
            total += loss.item() * len(y)
            correct += (logits.argmax(1) == y).sum().item()
            seen += len(y)
    return total / seen, correct / seen


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--data", type=Path, default="data/heartbeat")
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--width", type=int, default=64)
    p.add_argument("--workers", type=int, default=2)
    opt = p.parse_args()
    make_data(opt.data)
    torch.manual_seed(3)
    order = np.random.default_rng(5).permutation(STRIPS)
    train, held = Strips(opt.data, order[80:]), Strips(opt.data, order[:80])
    model = make_model(opt.width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    train_loader = DataLoader(train, batch_size=32, shuffle=True, num_workers=opt.workers)
    held_loader = DataLoader(held, batch_size=40, num_workers=opt.workers)
    for epoch in range(opt.epochs):
        train.visit = epoch
        loss, acc = run_epoch(model, train_loader, optimizer)
        print(f"epoch {epoch}  train loss {loss:.4f}  acc {acc:.3f}", flush=True)
    loss, acc = run_epoch(model, held_loader)
    print(f"held-out loss {loss:.4f}  acc {acc:.3f}")


if __name__ == "__main__":
    main()
