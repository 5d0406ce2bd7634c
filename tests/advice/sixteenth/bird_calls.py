"""Bird call classification from short recordings (log-mel CNN, noise-mixed training)."""
import os
import tempfile
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 6))
ROOT = os.path.join(os.environ.get("DATA_DIR", tempfile.gettempdir()), "bird_calls")
RATE, SECONDS, SPECIES = 16000, 2, 8
RECORDINGS, NOISES = 800, 24
N_FFT, HOP, MELS = 512, 256, 48


def make_recordings():
    os.makedirs(os.path.join(ROOT, "calls"), exist_ok=True)
    os.makedirs(os.path.join(ROOT, "noise"), exist_ok=True)
    if os.path.exists(os.path.join(ROOT, "done")):
        return
    rng = np.random.default_rng(11)
    t = np.arange(RATE * SECONDS) / RATE
    for i in range(RECORDINGS):
        label = i % SPECIES
        sweep = 900 + 500 * label + 300 * np.sin(2 * np.pi * (3 + label) * t + rng.uniform(0, 6))
        wave = np.sin(2 * np.pi * np.cumsum(sweep) / RATE) * rng.uniform(0.2, 0.9)
        pcm = (wave * 20000).astype(np.int16)
        np.save(os.path.join(ROOT, "calls", f"{i:04d}_{label}.npy"), pcm)
    for i in range(NOISES):
        noise = np.cumsum(rng.normal(size=RATE * 4)) * 0.02 + rng.normal(size=RATE * 4)
        np.save(os.path.join(ROOT, "noise", f"{i:02d}.npy"), noise.astype(np.float32))
    open(os.path.join(ROOT, "done"), "w").close()


def read_from_archive(path):
    """The noise recordings live on the group's archive share."""
    time.sleep(0.1)
    return np.load(path)


def mel_matrix():
    freqs = np.linspace(0, RATE / 2, N_FFT // 2 + 1)
    edges = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + RATE / 1400), MELS + 2) / 2595) - 1)
    up = (freqs[None] - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    down = (edges[2:, None] - freqs[None]) / (edges[2:] - edges[1:-1])[:, None]
    return np.maximum(0, np.minimum(up, down)).astype(np.float32)


class BirdCalls(Dataset):
    def __init__(self, files, augment):
        self.files = files
        self.augment = augment
        self.mel = torch.from_numpy(mel_matrix())
        self.window = torch.hann_window(N_FFT)
        self._noise = None

    @property
    def noise(self):
        if self._noise is None:
            folder = os.path.join(ROOT, "noise")
            bank = [read_from_archive(os.path.join(folder, f)) for f in sorted(os.listdir(folder))]
            self._noise = [n / (np.abs(n).max() + 1e-6) for n in bank]
        return self._noise

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        name = self.files[index]
        wave = np.load(os.path.join(ROOT, "calls", name)).astype(np.float32) / 32768
        if self.augment:
            noise = self.noise[np.random.randint(NOISES)]
            start = np.random.randint(len(noise) - len(wave))
            wave = wave + np.random.uniform(0.05, 0.4) * noise[start:start + len(wave)]
        wave = torch.from_numpy(wave.astype(np.float32))
        spectrum = torch.stft(wave, N_FFT, HOP, window=self.window, return_complex=True)
        logmel = torch.log(self.mel @ spectrum.abs().square() + 1e-4)
        return logmel[None], int(name[5])


class CallNet(nn.Module):
    def __init__(self):
        super().__init__()
        layers, last = [], 1
        for width in (12, 24, 48):
            layers += [nn.Conv2d(last, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2)]
            last = width
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(last, SPECIES)

    def forward(self, x):
        return self.head(self.features(x).mean(dim=(2, 3)))


def accuracy(model, loader):
    model.eval()
    hits = total = 0
    with torch.no_grad():
        for x, y in loader:
            hits += (model(x).argmax(1) == y).sum().item()
            total += len(y)
    model.train()
    return hits / total


def main():
    torch.manual_seed(0)
    make_recordings()
    files = sorted(os.listdir(os.path.join(ROOT, "calls")))
    train = BirdCalls(files[:736], augment=True)
    val = BirdCalls(files[736:], augment=False)
    train_loader = DataLoader(train, batch_size=16, shuffle=True, num_workers=2, prefetch_factor=4, drop_last=True)
    val_loader = DataLoader(val, batch_size=64)
    model = CallNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    loss_fn = nn.CrossEntropyLoss(label_smoothing=0.05)
    for epoch in range(EPOCHS):
        began, running = time.time(), 0.0
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            optimizer.step()
            running += loss.item()
        acc = accuracy(model, val_loader)
        print(f"epoch {epoch}: loss {running / len(train_loader):.4f} val acc {acc:.3f} ({time.time() - began:.1f}s)", flush=True)


if __name__ == "__main__":
    main()
