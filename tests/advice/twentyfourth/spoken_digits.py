"""Spoken digit sequence classification from variable-length recordings (log-mel + GRU)."""
import argparse
import os
import time

import numpy as np
import torch
import torch.nn as nn
from scipy.io import wavfile
from torch.utils.data import DataLoader, Dataset, Sampler

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "spoken_digits")
RATE = 16000
RECORDINGS = 1800
N_FFT, HOP, N_MELS = 512, 160, 40


def make_data():
    if os.path.exists(os.path.join(ROOT, "labels.txt")):
        return
    os.makedirs(os.path.join(ROOT, "wav"), exist_ok=True)
    rng = np.random.default_rng(14)
    lines = []
    for n in range(RECORDINGS):
        digit = int(rng.integers(10))
        seconds = float(np.clip(rng.gamma(3.0, 0.8), 0.6, 6.0))
        t = np.arange(int(seconds * RATE)) / RATE
        pitch = 110 + 22 * digit + rng.normal(0, 3)
        wave = sum(np.sin(2 * np.pi * pitch * k * t + rng.uniform(0, 6)) / k for k in range(1, 6))
        wave = wave * (0.4 + 0.3 * np.sin(2 * np.pi * 3 * t)) + rng.normal(0, 0.25, len(t))
        wavfile.write(os.path.join(ROOT, "wav", f"rec_{n:04d}.wav"), RATE, (wave * 6000).clip(-32767, 32767).astype(np.int16))
        lines.append(f"rec_{n:04d}.wav {digit}\n")
    with open(os.path.join(ROOT, "labels.txt"), "w") as handle:
        handle.writelines(lines)


def mel_filters(n_freqs):
    def to_mel(hz):
        return 2595 * np.log10(1 + hz / 700)
    mels = np.linspace(to_mel(40), to_mel(RATE / 2), N_MELS + 2)
    edges = 700 * (10 ** (mels / 2595) - 1)
    freqs = np.linspace(0, RATE / 2, n_freqs)
    up = (freqs[None] - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    down = (edges[2:, None] - freqs[None]) / (edges[2:] - edges[1:-1])[:, None]
    return torch.from_numpy(np.maximum(0, np.minimum(up, down)).astype(np.float32))


class Recordings(Dataset):
    def __init__(self, root):
        with open(os.path.join(root, "labels.txt")) as handle:
            pairs = [line.split() for line in handle]
        self.files = [os.path.join(root, "wav", name) for name, _ in pairs]
        self.labels = [int(label) for _, label in pairs]
        self.window = torch.hann_window(N_FFT)
        self.filters = mel_filters(N_FFT // 2 + 1)

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        _, samples = wavfile.read(self.files[index])
        wave = torch.from_numpy(samples.astype(np.float32) / 32768)
        spectrum = torch.stft(wave, N_FFT, HOP, window=self.window, return_complex=True).abs().square()
        features = (self.filters @ spectrum).clamp_min(1e-8).log().T
        return (features - features.mean(0)) / (features.std(0) + 1e-5), self.labels[index]


class LengthBatchSampler(Sampler):
    def __init__(self, dataset, batch_size, pool=8):
        self.dataset = dataset
        self.batch_size = batch_size
        self.pool = pool

    def __len__(self):
        return (len(self.dataset) + self.batch_size - 1) // self.batch_size

    def __iter__(self):
        lengths = [len(features) for features, _ in self.dataset]
        order = torch.randperm(len(lengths)).tolist()
        size = self.batch_size * self.pool
        batches = []
        for begin in range(0, len(order), size):
            group = sorted(order[begin:begin + size], key=lambda i: lengths[i])
            batches += [group[k:k + self.batch_size] for k in range(0, len(group), self.batch_size)]
        for k in torch.randperm(len(batches)).tolist():
            yield batches[k]


def collate(batch):
    features, labels = zip(*batch)
    lengths = torch.tensor([len(f) for f in features])
    return nn.utils.rnn.pad_sequence(features, batch_first=True), lengths, torch.tensor(labels)


class DigitNet(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(N_MELS, width, 5, stride=3, padding=2), nn.ReLU(),
                                  nn.Conv1d(width, width, 5, stride=2, padding=2), nn.ReLU())
        self.head = nn.Linear(width, 10)

    def forward(self, features, lengths):
        x = self.conv(features.transpose(1, 2))
        keep = torch.arange(x.size(2))[None] < (lengths[:, None] + 5) // 6
        return self.head((x * keep[:, None]).sum(2) / keep.sum(1, keepdim=True))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--make", action="store_true")
    args = parser.parse_args()
    make_data()
    if args.make:
        return

    torch.manual_seed(23)
    recordings = Recordings(ROOT)
    loader = DataLoader(recordings, batch_sampler=LengthBatchSampler(recordings, args.batch_size),
                        collate_fn=collate)
    model = DigitNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        begin, total, correct = time.time(), 0.0, 0
        for features, lengths, labels in loader:
            logits = model(features, lengths)
            loss = nn.functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(labels)
            correct += (logits.argmax(1) == labels).sum().item()
        n = len(recordings)
        print(f"epoch {epoch + 1} loss {total / n:.4f} acc {correct / n:.3f} in {time.time() - begin:.1f}s")


if __name__ == "__main__":
    main()
