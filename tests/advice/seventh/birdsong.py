# Bird species from field recordings: random two-second excerpts, log-mel input, small CNN.
import os
import tempfile
import wave
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 4))
RATE = 22050
SECONDS = 20  # length of a recording
EXCERPT = 2  # length of what the network sees
N_FFT, HOP, MELS = 1024, 256, 64
SPECIES = 6
RECORDINGS = 60
EXCERPTS_PER_RECORDING = 5

torch.set_num_threads(1)


def record_birds(folder):
    rng = np.random.default_rng(3)
    time = np.arange(RATE * SECONDS, dtype=np.float32) / RATE
    table = []
    for number in range(RECORDINGS):
        species = number % SPECIES
        pitch = 1500 + 700 * species + rng.uniform(-80, 80)
        rhythm = 1.0 + 0.35 * species
        song = np.sin(2 * np.pi * pitch * time) * (np.sin(2 * np.pi * rhythm * time) > 0.3)
        song = song * 0.3 + rng.standard_normal(len(time), dtype=np.float32) * 0.05
        path = Path(folder) / f"XC{number:06d}.wav"
        with wave.open(str(path), "wb") as out:
            out.setnchannels(1)
            out.setsampwidth(2)
            out.setframerate(RATE)
            out.writeframes((np.clip(song, -1, 1) * 32767).astype("<i2").tobytes())
        table.append((str(path), species))
    return table


def mel_bank():
    def to_mel(hz):
        return 2595 * np.log10(1 + hz / 700)

    edges = 700 * (10 ** (np.linspace(to_mel(200), to_mel(10500), MELS + 2) / 2595) - 1)
    bins = np.linspace(0, RATE / 2, N_FFT // 2 + 1)
    up = (bins[None] - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    down = (edges[2:, None] - bins[None]) / (edges[2:] - edges[1:-1])[:, None]
    return torch.from_numpy(np.clip(np.minimum(up, down), 0, None).astype(np.float32))


class Recordings(Dataset):
    def __init__(self, table):
        self.table = [row for row in table for _ in range(EXCERPTS_PER_RECORDING)]
        self.bank = mel_bank()
        self.window = torch.hann_window(N_FFT)

    def __len__(self):
        return len(self.table)

    def load(self, path):
        with wave.open(path, "rb") as f:
            raw = f.readframes(f.getnframes())
        return torch.from_numpy(np.frombuffer(raw, dtype="<i2").astype(np.float32) / 32768)

    def augment(self, signal):
        gain = 10 ** float(torch.empty(1).uniform_(-0.4, 0.4))
        hiss = float(torch.empty(1).uniform_(0.0, 0.02))
        return signal * gain + hiss * torch.randn_like(signal)

    def log_mel(self, signal):
        spectrum = torch.stft(signal, N_FFT, HOP, window=self.window, return_complex=True)
        return torch.log(self.bank @ spectrum.abs().square() + 1e-5)

    def __getitem__(self, index):
        path, species = self.table[index]
        signal = self.load(path)
        signal = self.augment(signal)
        features = self.log_mel(signal)
        frames = EXCERPT * RATE // HOP
        start = int(torch.randint(features.shape[1] - frames, (1,)))
        features = features[:, start : start + frames]
        features = (features - features.mean()) / (features.std() + 1e-4)
        return features[None].contiguous(), species


class SongNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 8, 5, stride=2, padding=2)
        self.c2 = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.c3 = nn.Conv2d(16, 32, 3, stride=2, padding=1)
        self.out = nn.Linear(32, SPECIES)

    def forward(self, x):
        x = F.relu(self.c1(x))
        x = F.relu(self.c2(x))
        x = F.relu(self.c3(x))
        return self.out(F.dropout(x.mean(dim=(2, 3)), 0.1, self.training))


def main():
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory(prefix="birds_") as folder:
        table = record_birds(folder)
        loader = DataLoader(
            Recordings(table), batch_size=20, shuffle=True, num_workers=2, prefetch_factor=4, persistent_workers=True
        )
        net = SongNet()
        opt = torch.optim.Adam(net.parameters(), lr=3e-3)
        sched = torch.optim.lr_scheduler.OneCycleLR(opt, 3e-3, total_steps=EPOCHS * len(loader))
        for epoch in range(EPOCHS):
            seen = right = 0
            running = 0.0
            for x, y in loader:
                logits = net(x)
                loss = F.cross_entropy(logits, y, label_smoothing=0.05)
                opt.zero_grad(set_to_none=True)
                loss.backward()
                opt.step()
                sched.step()
                running += loss.item() * len(y)
                right += (logits.argmax(1) == y).sum().item()
                seen += len(y)
            print(f"[{epoch + 1}/{EPOCHS}] loss={running / seen:.4f} acc={right / seen:.3f}", flush=True)


if __name__ == "__main__":
    main()
