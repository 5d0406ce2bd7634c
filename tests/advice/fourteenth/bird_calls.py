import os
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 6))
SEED = 11
RATE = 16000
SPECIES = 8
BATCH = 16


def synthesise(n_clips, seconds=2.5):
    rng = np.random.default_rng(SEED)
    t = np.arange(int(RATE * seconds), dtype=np.float32) / RATE
    labels = rng.integers(0, SPECIES, n_clips)
    clips = np.empty((n_clips, t.size), dtype=np.int16)
    for i, label in enumerate(labels):
        base = 900 + 500 * label + rng.normal(0, 60)
        trill = 4 + 1.5 * (label % 4)
        phase = 2 * np.pi * base * t + 25 * np.sin(2 * np.pi * trill * t)
        wave = 0.4 * np.sin(phase) + 0.15 * rng.standard_normal(t.size, dtype=np.float32)
        clips[i] = np.clip(wave, -1, 1) * 32767
    return clips, labels.astype(np.int64)


def mel_filters(n_fft, n_mels):
    top = 2595 * np.log10(1 + RATE / 2 / 700)
    hz = 700 * (10 ** (np.linspace(0, top, n_mels + 2) / 2595) - 1)
    bins = np.linspace(0, RATE / 2, n_fft // 2 + 1)
    bank = np.zeros((n_mels, bins.size), dtype=np.float32)
    for m in range(n_mels):
        left, centre, right = hz[m:m + 3]
        up = (bins - left) / (centre - left)
        down = (right - bins) / (right - centre)
        bank[m] = np.maximum(0, np.minimum(up, down))
    return torch.from_numpy(bank)


class BirdCalls(Dataset):
    def __init__(self, clips, labels, n_fft=512, hop=160, n_mels=48):
        self.clips, self.labels = clips, labels
        self.n_fft, self.hop = n_fft, hop
        self.window = torch.hann_window(n_fft)
        self.bank = mel_filters(n_fft, n_mels)
        self.crop = 2 * RATE

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        clip = self.clips[index]
        start = int(torch.randint(0, len(clip) - self.crop, (1,)))
        wave = torch.from_numpy(clip[start:start + self.crop].astype(np.float32) / 32768)
        wave = wave * (0.6 + 0.8 * torch.rand(1))
        spec = torch.stft(wave, self.n_fft, self.hop, window=self.window, return_complex=True)
        mel = torch.log(self.bank @ spec.abs().square() + 1e-5)
        mel = (mel - mel.mean()) / (mel.std() + 1e-5)
        low = int(torch.randint(0, mel.shape[0] - 6, (1,)))
        mel[low:low + 6] = 0
        return mel.unsqueeze(0), int(self.labels[index])


class CallNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 12, 3, stride=2, padding=1), nn.BatchNorm2d(12), nn.ReLU(),
            nn.Conv2d(12, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(24, 48, 3, padding=1), nn.BatchNorm2d(48), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )
        self.head = nn.Linear(48, SPECIES)

    def forward(self, x):
        return self.head(self.body(x))


def epoch_loader(dataset, epoch):
    return DataLoader(
        dataset,
        batch_size=BATCH,
        shuffle=True,
        num_workers=2,
        persistent_workers=True,
        multiprocessing_context="spawn",
        generator=torch.Generator().manual_seed(SEED + epoch),
    )


def main():
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    dataset = BirdCalls(*synthesise(800))
    model = CallNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

    for epoch in range(EPOCHS):
        began = time.perf_counter()
        loader = epoch_loader(dataset, epoch)
        model.train()
        seen, right, total = 0, 0, 0.0
        for mel, label in loader:
            logits = model(mel)
            loss = F.cross_entropy(logits, label)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            seen += len(label)
            right += (logits.argmax(1) == label).sum().item()
            total += loss.item() * len(label)
        print(f"epoch {epoch}: loss {total / seen:.3f} acc {right / seen:.3f} "
              f"({time.perf_counter() - began:.1f}s)", flush=True)


if __name__ == "__main__":
    main()
