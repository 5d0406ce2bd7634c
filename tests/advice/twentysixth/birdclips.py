"""Bird call classifier: one second clips out of half-minute field recordings, log-mel CNN.

    python birdclips.py --epochs 4
"""
import argparse
import json
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from scipy.io import wavfile
from scipy.signal import butter, sosfiltfilt
from torch.utils.data import DataLoader, Dataset

ROOT = Path(__file__).parent / "data" / "birdclips"
RATE = 16000
SPECIES = 8


def make_recordings(root, count=48, seconds=20):
    """Synthetic field recordings: chirps of one species over wind and hum."""
    if (root / "labels.json").exists():
        return
    root.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(7)
    t = np.arange(seconds * RATE) / RATE
    labels = {}
    for i in range(count):
        species = i % SPECIES
        base = 1200 + 600 * species
        warble = np.sin(2 * np.pi * (2 + species) * t)
        phase = 2 * np.pi * np.cumsum(base + 150 * warble) / RATE
        gate = (np.sin(2 * np.pi * (1.5 + 0.2 * species) * t + rng.uniform(0, 6)) > -0.2)
        wind = np.cumsum(rng.normal(0, 1, t.size)) / 400
        hum = 0.4 * np.sin(2 * np.pi * 100 * t)
        audio = 0.2 * np.sin(phase) * gate + wind - wind.mean() + hum + rng.normal(0, 0.1, t.size)
        audio = audio / np.abs(audio).max()
        name = f"rec_{i:03d}.wav"
        wavfile.write(root / name, RATE, (audio * 32000).astype(np.int16))
        labels[name] = species
    (root / "labels.json").write_text(json.dumps(labels))


class ClipDataset(Dataset):
    """Every recording gives `clips` random clips an epoch."""

    def __init__(self, root, clips, length=RATE, low=800, high=7000):
        labels = json.loads((root / "labels.json").read_text())
        self.items = [(root / name, y) for name, y in sorted(labels.items())] * clips
        self.length = length
        self.sos = butter(6, [low, high], btype="bandpass", fs=RATE, output="sos")

    def __len__(self):
        return len(self.items)

    def load(self, path):
        rate, audio = wavfile.read(path, mmap=True)
        if rate != RATE:
            raise ValueError(f"{path}: {rate} Hz")
        return audio

    def denoise(self, audio):
        return sosfiltfilt(self.sos, audio.astype(np.float32) / 32768.0).astype(np.float32)

    def crop(self, audio):
        start = int(torch.randint(0, audio.shape[0] - self.length, (1,)))
        return audio[start:start + self.length]

    def __getitem__(self, index):
        path, label = self.items[index]
        audio = self.denoise(self.load(path))
        clip = self.crop(audio)
        clip = (clip - clip.mean()) / (clip.std() + 1e-5)
        return torch.from_numpy(clip), label


def mel_bank(n_fft, n_mels):
    def mel(f):
        return 2595 * np.log10(1 + f / 700)
    edges = 700 * (10 ** (np.linspace(mel(300), mel(RATE / 2), n_mels + 2) / 2595) - 1)
    freqs = np.linspace(0, RATE / 2, n_fft // 2 + 1)
    up = (freqs[None] - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    down = (edges[2:, None] - freqs[None]) / (edges[2:] - edges[1:-1])[:, None]
    return torch.tensor(np.clip(np.minimum(up, down), 0, None), dtype=torch.float32)


class LogMelNet(nn.Module):
    def __init__(self, n_fft=512, hop=160, n_mels=48, width=12):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))
        self.register_buffer("bank", mel_bank(n_fft, n_mels))
        chans = [1, width, 2 * width, 3 * width]
        self.body = nn.Sequential(*[
            nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(), nn.MaxPool2d(2))
            for a, b in zip(chans, chans[1:])])
        self.head = nn.Linear(chans[-1], SPECIES)

    def forward(self, wave):
        spec = torch.stft(wave, self.n_fft, self.hop, window=self.window, return_complex=True).abs().square()
        x = torch.log(self.bank @ spec + 1e-4).unsqueeze(1)
        return self.head(self.body(x).mean((2, 3)))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--clips", type=int, default=6, help="clips a recording an epoch")
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--workers", type=int, default=2)
    args = ap.parse_args()

    torch.manual_seed(0)
    make_recordings(ROOT)
    data = ClipDataset(ROOT, args.clips)
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True, num_workers=args.workers,
                        persistent_workers=args.workers > 0, drop_last=True)
    model = LogMelNet()
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        total, right, seen = 0.0, 0, 0
        for wave, label in loader:
            logits = model(wave)
            loss = F.cross_entropy(logits, label)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            total += loss.item() * len(label)
            right += (logits.argmax(1) == label).sum().item()
            seen += len(label)
        print(f"epoch {epoch}: loss {total / seen:.4f} acc {right / seen:.3f}", flush=True)


if __name__ == "__main__":
    main()
