"""Keyword spotting: log-mel of one-second clips, mixed with background noise."""

import argparse
import os
import tempfile
import time
import wave

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

RATE, N_FFT, HOP, N_MELS = 16_000, 512, 160, 80


def save_wav(path, signal):
    with wave.open(path, "wb") as w:
        w.setparams((1, 2, RATE, 0, "NONE", "not compressed"))
        w.writeframes((np.clip(signal, -1, 1) * 32000).astype("<i2").tobytes())


def load_wav(path):
    with wave.open(path, "rb") as w:
        return np.frombuffer(w.readframes(w.getnframes()), "<i2").astype(np.float32) / 32768


def record(folder, clips, words):
    rng = np.random.default_rng(9)
    t = np.arange(RATE) / RATE
    for k in range(clips):
        f0 = 200 + 90 * (k % words) + rng.normal(0, 8)
        save_wav(
            f"{folder}/clip_{k:04d}_{k % words}.wav",
            0.5 * np.sin(2 * np.pi * f0 * t * (1 + 0.2 * t)) * np.hanning(RATE),
        )
    for k in range(3):
        save_wav(f"{folder}/background_{k}.wav", rng.normal(0, 0.2, 40 * RATE))


def shaped_noise(path, exponents=(0.0, 0.5, 1.0, 1.5)):
    spectrum = np.fft.rfft(load_wav(path))
    freq = np.maximum(np.fft.rfftfreq(40 * RATE, 1 / RATE), 20.0)
    out = []
    for e in exponents:
        x = np.fft.irfft(spectrum / freq**e)
        out.append((x / np.abs(x).max()).astype(np.float32))
    return out


def mel_filters():
    to_mel = lambda f: 2595 * np.log10(1 + f / 700)
    edges = 700 * (10 ** (np.linspace(to_mel(20), to_mel(RATE / 2), N_MELS + 2) / 2595) - 1)
    freq = np.fft.rfftfreq(N_FFT, 1 / RATE)
    bank = np.zeros((N_MELS, len(freq)))
    for m in range(N_MELS):
        lo, mid, hi = edges[m : m + 3]
        bank[m] = np.maximum(0, np.minimum((freq - lo) / (mid - lo), (hi - freq) / (hi - mid))) * 2 / (hi - lo)
    return torch.tensor(bank, dtype=torch.float32)


class Keywords(Dataset):
    def __init__(self, folder):
        names = sorted(os.listdir(folder))
        self.clips = [f"{folder}/{n}" for n in names if n.startswith("clip")]
        self.backgrounds = [f"{folder}/{n}" for n in names if n.startswith("background")]
        self.noise = None

    def __len__(self):
        return len(self.clips)

    def __getitem__(self, i):
        if self.noise is None:
            self.noise = [x for path in self.backgrounds for x in shaped_noise(path)]
        x = load_wav(self.clips[i])
        noise = self.noise[torch.randint(len(self.noise), ()).item()]
        at = torch.randint(len(noise) - RATE, ()).item()
        x = torch.from_numpy(x + 0.3 * noise[at : at + RATE])
        power = torch.stft(x, N_FFT, HOP, window=torch.hann_window(N_FFT), return_complex=True).abs() ** 2
        logmel = torch.log(mel_filters() @ power + 1e-6)
        return logmel[None], int(self.clips[i][:-4].rsplit("_", 1)[1])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--clips", type=int, default=480)
    p.add_argument("--words", type=int, default=10)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--num-workers", type=int, default=2)
    p.add_argument("--epochs", type=int, default=int(os.environ.get("EPOCHS", "22")))
    a = p.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        record(folder, a.clips, a.words)
        loader = DataLoader(Keywords(folder), batch_size=a.batch_size, shuffle=True, num_workers=a.num_workers)
        model = nn.Sequential(
            nn.Conv2d(1, 12, 5, 3),
            nn.ReLU(),
            nn.Conv2d(12, 24, 3, 2),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d((5, 1)),
            nn.Flatten(),
            nn.Linear(120, a.words),
        )
        opt = torch.optim.Adam(model.parameters(), 2e-3)
        for epoch in range(a.epochs):
            t0, losses = time.time(), []
            for x, y in loader:
                loss = nn.functional.cross_entropy(model(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                losses.append(loss.item())
            print(f"epoch {epoch} loss {np.mean(losses):.3f} time {time.time() - t0:.2f}", flush=True)


if __name__ == "__main__":
    main()
