"""Bird species from short field recordings: log-mel CNN with background-noise mixing."""
import argparse
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from scipy.io import wavfile
from scipy.signal import resample_poly
from torch.utils.data import DataLoader, Dataset, RandomSampler

HERE = Path(__file__).resolve().parent
DATA = HERE / "data" / "bird_songs"
RATE = 16000
SECONDS = 2
SPECIES = 8
N_TRAIN, N_VAL, N_NOISE = 224, 48, 44


def make_data():
    if (DATA / "done").exists():
        return
    rng = np.random.default_rng(7)
    for part in ("train", "val", "background"):
        (DATA / part).mkdir(parents=True, exist_ok=True)
    t = np.arange(RATE * SECONDS) / RATE
    for part, count in (("train", N_TRAIN), ("val", N_VAL)):
        for i in range(count):
            species = i % SPECIES
            base = 1200 + 550 * species + rng.normal(0, 90)
            sweep = 350 * np.sin(2 * np.pi * (2 + species % 3) * t + rng.uniform(0, 6))
            gate = (np.sin(2 * np.pi * rng.uniform(1.5, 3.5) * t) > 0.1).astype(np.float32)
            song = gate * np.sin(2 * np.pi * np.cumsum(base + sweep) / RATE)
            song = 0.5 * song + 0.1 * rng.standard_normal(len(t))
            pcm = np.clip(song * 16000, -32768, 32767).astype(np.int16)
            wavfile.write(DATA / part / f"{i:04d}_{species}.wav", RATE, pcm)
    for i in range(N_NOISE):
        hiss = rng.standard_normal(44100 * 20).astype(np.float32)
        hiss = np.convolve(hiss, np.ones(3 + i % 9) / 3, mode="same")
        pcm = np.clip(hiss * 4000, -32768, 32767).astype(np.int16)
        wavfile.write(DATA / "background" / f"site{i:02d}.wav", 44100, pcm)
    (DATA / "done").touch()


def load_background(folder):
    bank = []
    for path in sorted(folder.glob("*.wav")):
        rate, pcm = wavfile.read(path)
        wave = pcm.astype(np.float64) / 32768.0
        bank.append(resample_poly(wave, RATE // 100, rate // 100).astype(np.float32))
    return bank


class SongDataset(Dataset):
    def __init__(self, part, mix_noise):
        self.paths = sorted((DATA / part).glob("*.wav"))
        self.mix_noise = mix_noise
        self.background = None

    def __len__(self):
        return len(self.paths)

    def _noise(self, length):
        if self.background is None:
            self.background = load_background(DATA / "background")
        track = self.background[torch.randint(len(self.background), ()).item()]
        start = torch.randint(len(track) - length, ()).item()
        return track[start:start + length]

    def __getitem__(self, index):
        path = self.paths[index]
        _, pcm = wavfile.read(path)
        wave = pcm.astype(np.float32) / 32768.0
        if self.mix_noise:
            gain = 0.2 + 0.8 * torch.rand(()).item()
            wave = wave + gain * self._noise(len(wave))
        label = int(path.stem.split("_")[1])
        return torch.from_numpy(wave), label


def mel_matrix(n_mels=48, n_fft=512):
    def to_mel(f):
        return 2595 * np.log10(1 + f / 700)

    points = np.linspace(to_mel(200), to_mel(RATE / 2), n_mels + 2)
    hz = 700 * (10 ** (points / 2595) - 1)
    bins = np.linspace(0, RATE / 2, n_fft // 2 + 1)
    up = (bins[None] - hz[:-2, None]) / (hz[1:-1] - hz[:-2])[:, None]
    down = (hz[2:, None] - bins[None]) / (hz[2:] - hz[1:-1])[:, None]
    return torch.from_numpy(np.maximum(0, np.minimum(up, down))).float()


class SongNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mel", mel_matrix())
        self.register_buffer("window", torch.hann_window(512))
        layers, width = [], 1
        for out in (12, 24, 48):
            layers += [nn.Conv2d(width, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU(), nn.MaxPool2d(2)]
            width = out
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(width, SPECIES)

    def forward(self, wave):
        spec = torch.stft(wave, 512, 256, window=self.window, return_complex=True).abs().square()
        logmel = torch.log(self.mel @ spec + 1e-5).unsqueeze(1)
        return self.head(self.body(logmel).mean(dim=(2, 3)))


def evaluate(model, loader):
    model.eval()
    right = total = 0
    with torch.no_grad():
        for wave, label in loader:
            right += (model(wave).argmax(1) == label).sum().item()
            total += len(label)
    return right / total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--make", action="store_true")
    args = parser.parse_args()
    make_data()
    if args.make:
        return

    torch.set_num_threads(1)
    torch.manual_seed(11)
    train_set = SongDataset("train", mix_noise=True)
    val_set = SongDataset("val", mix_noise=False)
    order = RandomSampler(train_set, generator=torch.Generator().manual_seed(5))
    train_loader = DataLoader(train_set, batch_size=args.batch_size, sampler=order, num_workers=2, drop_last=True)
    val_loader = DataLoader(val_set, batch_size=32)
    model = SongNet()
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3)

    for epoch in range(args.epochs):
        began = time.time()
        model.train()
        total = 0.0
        for wave, label in train_loader:
            loss = F.cross_entropy(model(wave), label)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            total += loss.item()
        accuracy = evaluate(model, val_loader)
        print(f"epoch {epoch} loss {total / len(train_loader):.4f} val acc {accuracy:.3f} ({time.time() - began:.1f} s)", flush=True)


if __name__ == "__main__":
    main()
