"""Bird call recognition: log-mel spectrograms from field recordings (WAV)."""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from scipy import signal
from scipy.io import wavfile
from torch import nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class Config:
    clips: int = 160
    seconds: int = 5
    record_rate: int = 32000
    rate: int = 16000
    n_fft: int = 1024
    hop: int = 256
    mels: int = 64
    frames: int = 192
    species: int = 6
    batch_size: int = 16
    epochs: int = int(os.environ.get("EPOCHS", "10"))


def write_recordings(root, cfg):
    rng = np.random.default_rng(5)
    t = np.arange(cfg.record_rate * cfg.seconds) / cfg.record_rate
    for i in range(cfg.clips):
        species = i % cfg.species
        tone = 1500 + 700 * species + rng.normal(0, 60)
        trill = 0.5 * (1 + np.sign(np.sin(2 * np.pi * (2 + species) * t + rng.random())))
        audio = 0.3 * trill * np.sin(2 * np.pi * tone * t)
        audio += 0.1 * rng.standard_normal(t.size, dtype=np.float32)
        wavfile.write(root / f"{i:04d}_sp{species}.wav", cfg.record_rate, (audio * 20000).astype(np.int16))


def mel_bank(cfg):
    def to_mel(f):
        return 2595 * np.log10(1 + f / 700)

    freqs = np.fft.rfftfreq(cfg.n_fft, 1 / cfg.rate)
    edges = np.linspace(to_mel(300), to_mel(cfg.rate / 2), cfg.mels + 2)
    mel = to_mel(freqs)[None, :]
    low, mid, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    up, down = (mel - low) / (mid - low), (high - mel) / (high - mid)
    return np.maximum(0, np.minimum(up, down)).astype(np.float32)


class BirdCalls(Dataset):
    def __init__(self, root, cfg):
        self.cfg = cfg
        self.files = sorted(root.glob("*.wav"))
        self.bank = torch.from_numpy(mel_bank(cfg))
        self.band = signal.butter(4, [300, 7500], "bandpass", fs=cfg.rate, output="sos")

    def __len__(self):
        return len(self.files)

    def spectrogram(self, path):
        rate, audio = wavfile.read(path)
        audio = audio.astype(np.float32) / 32768
        audio = signal.resample_poly(audio, self.cfg.rate, rate)
        audio = signal.sosfiltfilt(self.band, audio)
        _, _, spec = signal.stft(audio, nperseg=self.cfg.n_fft, noverlap=self.cfg.n_fft - self.cfg.hop)
        power = torch.from_numpy(np.abs(spec) ** 2).float()
        logmel = torch.log(self.bank @ power + 1e-8)
        return (logmel - logmel.mean()) / (logmel.std() + 1e-5)

    def augment(self, spec):
        start = int(torch.randint(0, spec.shape[1] - self.cfg.frames, ()))
        spec = spec[:, start : start + self.cfg.frames].clone()
        f0 = int(torch.randint(0, self.cfg.mels - 8, ()))
        spec[f0 : f0 + 8] = 0
        t0 = int(torch.randint(0, self.cfg.frames - 20, ()))
        spec[:, t0 : t0 + 20] = 0
        return spec * (0.8 + 0.4 * torch.rand(()))

    def __getitem__(self, index):
        path = self.files[index]
        spec = self.spectrogram(path)
        return {"spec": self.augment(spec), "label": int(path.stem.split("_sp")[1])}


class Net(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.c1 = nn.Conv2d(1, 16, 5, stride=2, padding=2)
        self.c2 = nn.Conv2d(16, 32, 3, stride=2, padding=1)
        self.c3 = nn.Conv2d(32, 64, 3, stride=2, padding=1)
        self.head = nn.Linear(64, cfg.species)

    def forward(self, x):
        x = F.relu(self.c3(F.relu(self.c2(F.relu(self.c1(x.unsqueeze(1)))))))
        return self.head(x.mean((2, 3)))


def main():
    cfg = Config()
    torch.manual_seed(5)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as tmp:
        root = Path(tmp)
        write_recordings(root, cfg)
        loader = DataLoader(BirdCalls(root, cfg), batch_size=cfg.batch_size, shuffle=True)
        net = Net(cfg)
        opt = torch.optim.Adam(net.parameters(), lr=1e-3)
        for epoch in range(cfg.epochs):
            losses = []
            for batch in loader:
                loss = F.cross_entropy(net(batch["spec"]), batch["label"])
                opt.zero_grad()
                loss.backward()
                opt.step()
                losses.append(loss.item())
            print(f"[{epoch + 1}/{cfg.epochs}] loss={np.mean(losses):.4f}", flush=True)


if __name__ == "__main__":
    main()
