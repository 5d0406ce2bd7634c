"""Tones become mel spectrograms in the worker. The filters and the window are built for each sample."""

import argparse
import functools
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

RATE, FRAME, HOP = 16_000, 512, 256


def mel(hertz):
    return 2595 * np.log10(1 + hertz / 700)


def filters(bands):
    """Triangles over the frequencies of a frame, one row for each band."""
    edges = 700 * (10 ** (np.linspace(0, mel(RATE / 2), bands + 2) / 2595) - 1)
    bins = np.linspace(0, RATE / 2, FRAME // 2 + 1)
    bank = np.zeros((bands, len(bins)), dtype=np.float32)
    for band in range(bands):
        low, middle, high = edges[band : band + 3]
        for i, hertz in enumerate(bins):
            bank[band, i] = max(0.0, min((hertz - low) / (middle - low), (high - hertz) / (high - middle)))
    return bank


filters_once = functools.cache(filters)


class Spectrogram:
    def __init__(self, bands, fixed):
        self.bands, self.fixed = bands, fixed

    def __call__(self, sound):
        bank = filters_once(self.bands) if self.fixed else filters(self.bands)
        frames = np.lib.stride_tricks.sliding_window_view(sound, FRAME)[::HOP]
        power = np.abs(np.fft.rfft(frames * np.hanning(FRAME).astype(np.float32), axis=1)) ** 2
        return np.log(power.astype(np.float32) @ bank.T + 1e-6)


class Tones(Dataset):
    def __init__(self, count, transform):
        self.pitches = np.random.default_rng(9).integers(0, 12, count)
        self.transform = transform

    def __len__(self):
        return len(self.pitches)

    def __getitem__(self, index):
        pitch = self.pitches[index]
        sound = np.sin(2 * np.pi * 220 * 2 ** (pitch / 12) * np.arange(RATE // 4) / RATE).astype(np.float32)
        return torch.from_numpy(self.transform(sound)), int(pitch)


class Classifier(nn.Module):
    def __init__(self, bands, device_s):
        super().__init__()
        self.device_s = device_s
        self.out = nn.Linear(bands, 12)

    def forward(self, spectrogram):
        time.sleep(self.device_s)  # the accelerator
        return self.out(spectrogram.mean(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--prefetch", type=int, default=2)
    parser.add_argument("--bands", type=int, default=40)
    parser.add_argument("--device-ms", type=float, default=22)
    parser.add_argument("--fixed", action="store_true", help="build the filters once in each worker")
    args = parser.parse_args()

    torch.manual_seed(6)
    loader = DataLoader(
        Tones(160, Spectrogram(args.bands, args.fixed)),
        batch_size=8,
        shuffle=True,
        num_workers=args.workers,
        prefetch_factor=args.prefetch,
        persistent_workers=True,
    )
    model = Classifier(args.bands, args.device_ms / 1000)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    began = time.perf_counter()
    for epoch in range(args.epochs):
        for spectrograms, pitches in loader:
            loss = nn.functional.cross_entropy(model(spectrograms), pitches)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}", flush=True)
    print(f"trained for {time.perf_counter() - began:.2f} s")


if __name__ == "__main__":
    main()
