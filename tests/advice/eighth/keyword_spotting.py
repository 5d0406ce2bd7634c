"""Keyword spotting on one-second clips (log-mel + small conv net)."""
import math
import os
import shutil
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

SR = 16000
N_FFT = 512
HOP = 160
N_MELS = 40
WORDS = ["yes", "no", "up", "down", "left", "right", "stop", "go"]
EPOCHS = int(os.environ.get("EPOCHS", "4"))


def hz_to_mel(f):
    return 2595.0 * math.log10(1.0 + f / 700.0)


def mel_to_hz(m):
    return 700.0 * (10.0 ** (m / 2595.0) - 1.0)


def mel_filters(sr, n_fft, n_mels):
    """Triangular HTK filters, (n_mels, n_fft // 2 + 1)."""
    lo, hi = hz_to_mel(40.0), hz_to_mel(sr / 2)
    pts = [mel_to_hz(lo + (hi - lo) * i / (n_mels + 1)) for i in range(n_mels + 2)]
    n_bins = n_fft // 2 + 1
    fb = np.zeros((n_mels, n_bins), dtype=np.float32)
    for m in range(n_mels):
        left, centre, right = pts[m], pts[m + 1], pts[m + 2]
        for b in range(n_bins):
            f = b * sr / n_fft
            up = (f - left) / (centre - left)
            down = (right - f) / (right - centre)
            fb[m, b] = max(0.0, min(up, down))
    return torch.from_numpy(fb)


def record_clips(folder, n, rng):
    t = np.arange(SR) / SR
    rows = []
    for i in range(n):
        y = int(rng.integers(len(WORDS)))
        f0 = 180 + 90 * y + rng.normal(0, 8)
        wav = np.sin(2 * np.pi * f0 * t) + 0.5 * np.sin(2 * np.pi * 2.5 * f0 * t)
        wav *= np.exp(-((t - rng.uniform(0.35, 0.65)) ** 2) / 0.03)
        wav += rng.normal(0, 0.25, SR)
        pcm = np.clip(wav * 9000, -32768, 32767).astype(np.int16)
        path = os.path.join(folder, f"{WORDS[y]}_{i:05d}.npy")
        np.save(path, pcm)
        rows.append((path, y))
    return rows


class SpeechClips(Dataset):
    def __init__(self, rows, train=True):
        self.rows = rows
        self.train = train

    def __len__(self):
        return len(self.rows)

    def augment(self, wav):
        shift = int(torch.randint(-1600, 1600, (1,)))
        wav = torch.roll(wav, shift)
        gain = 0.7 + 0.6 * torch.rand(1)
        return wav * gain + 0.01 * torch.randn_like(wav)

    def __getitem__(self, i):
        path, label = self.rows[i]
        wav = torch.from_numpy(np.load(path)).float() / 32768.0
        if self.train:
            wav = self.augment(wav)
        spec = torch.stft(wav, N_FFT, HOP, window=torch.hann_window(N_FFT), return_complex=True)
        mel = mel_filters(SR, N_FFT, N_MELS) @ spec.abs().pow(2)
        return torch.log(mel + 1e-6), label


class KWSNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 16, 3, stride=2, padding=1)
        self.c2 = nn.Conv2d(16, 32, 3, stride=2, padding=1)
        self.c3 = nn.Conv2d(32, 64, 3, stride=2, padding=1)
        self.b1, self.b2, self.b3 = nn.BatchNorm2d(16), nn.BatchNorm2d(32), nn.BatchNorm2d(64)
        self.fc = nn.Linear(64, len(WORDS))

    def forward(self, x):
        x = x.unsqueeze(1)
        x = F.relu(self.b1(self.c1(x)))
        x = F.relu(self.b2(self.c2(x)))
        x = F.relu(self.b3(self.c3(x)))
        return self.fc(x.mean((2, 3)))


def main():
    torch.manual_seed(17)
    torch.set_num_threads(1)  # shared box
    folder = tempfile.mkdtemp(prefix="kws_")
    try:
        rows = record_clips(folder, 704, np.random.default_rng(17))
        loader = DataLoader(SpeechClips(rows), batch_size=16, shuffle=True, num_workers=2,
                            persistent_workers=True, drop_last=True)
        net = KWSNet()
        opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
        for epoch in range(EPOCHS):
            t0 = time.time()
            right = seen = 0
            for mel, y in loader:
                logits = net(mel)
                loss = F.cross_entropy(logits, y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                right += (logits.argmax(1) == y).sum().item()
                seen += len(y)
            print(f"epoch {epoch + 1}/{EPOCHS} acc {right / seen:.3f} loss {loss.item():.3f} "
                  f"({time.time() - t0:.1f}s)", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
