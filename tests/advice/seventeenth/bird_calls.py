"""Bird calls from field recorders: a few labelled clips, many unlabelled ones (consistency training)."""
import os
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 6))
ROOT = Path(os.environ.get("DATA_DIR", tempfile.gettempdir())) / "bird_calls"
SPECIES = 8
RATE = 8000
LABELLED, UNLABELLED = 800, 1600
THRESHOLD = 0.8


def make_recordings():
    ROOT.mkdir(parents=True, exist_ok=True)
    path = ROOT / "clips.npz"
    if not path.exists():
        rng = np.random.default_rng(3)
        count = LABELLED + UNLABELLED
        species = rng.integers(0, SPECIES, count)
        t = np.arange(RATE, dtype=np.float32) / RATE
        clips = np.empty((count, RATE), dtype=np.int16)
        for i, s in enumerate(species):
            sweep = 600 + 350 * s + rng.uniform(-80, 80) + 200 * np.sin(2 * np.pi * (2 + s) * t)
            call = np.sin(2 * np.pi * np.cumsum(sweep) / RATE) * np.exp(-((t - rng.uniform(0.3, 0.7)) ** 2) * 30)
            clips[i] = 9000 * (call + 0.3 * rng.standard_normal(RATE, dtype=np.float32))
        np.savez(path, clips=clips, species=species)
    with np.load(path) as archive:
        return archive["clips"], archive["species"]


def log_spectrogram(wave):
    spectrum = torch.stft(wave, 256, hop_length=128, window=torch.hann_window(256), return_complex=True)
    return torch.log1p(spectrum.abs())[None, :96]


class Labelled(Dataset):
    def __init__(self, clips, species):
        self.clips, self.species = clips, species

    def __len__(self):
        return len(self.clips)

    def __getitem__(self, index):
        wave = torch.from_numpy(self.clips[index].astype(np.float32) / 32768)
        return log_spectrogram(wave.roll(int(torch.randint(RATE // 4, ())))), int(self.species[index])


class Unlabelled(Dataset):
    """Two views of a clip: one shifted, one shifted, noisy and masked."""

    def __init__(self, clips):
        self.clips = clips

    def __len__(self):
        return len(self.clips)

    def __getitem__(self, index):
        wave = torch.from_numpy(self.clips[index].astype(np.float32) / 32768)
        weak = log_spectrogram(wave.roll(int(torch.randint(RATE // 4, ()))))
        strong = log_spectrogram(wave + 0.05 * torch.randn_like(wave))
        start = int(torch.randint(80, ()))
        strong[:, start:start + 12] = 0
        return weak, strong


class PairedBatches:
    """Goes once through the labelled clips, with a batch of unlabelled ones beside each."""

    def __init__(self, labelled, unlabelled):
        self.labelled = labelled
        self.unlabelled = unlabelled

    def __len__(self):
        return len(self.labelled)

    def __iter__(self):
        for batch in self.labelled:
            yield batch, next(iter(self.unlabelled))


def build_model():
    return nn.Sequential(
        nn.Conv2d(1, 12, 3, stride=2, padding=1), nn.BatchNorm2d(12), nn.ReLU(),
        nn.Conv2d(12, 24, 3, stride=2, padding=1), nn.BatchNorm2d(24), nn.ReLU(),
        nn.Conv2d(24, 48, 3, stride=2, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(48, SPECIES),
    )


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    clips, species = make_recordings()
    common = dict(shuffle=True, drop_last=True, num_workers=1)
    labelled = DataLoader(Labelled(clips[:LABELLED], species[:LABELLED]), batch_size=16,
                          persistent_workers=True, **common)
    unlabelled = DataLoader(Unlabelled(clips[LABELLED:]), batch_size=32, **common)
    batches = PairedBatches(labelled, unlabelled)
    model = build_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9, nesterov=True)
    for epoch in range(EPOCHS):
        model.train()
        total, used = 0.0, 0.0
        for (x, y), (weak, strong) in batches:
            logits = model(torch.cat([x, weak, strong]))
            supervised, on_weak, on_strong = logits.split([len(x), len(weak), len(strong)])
            confidence, pseudo = on_weak.detach().softmax(1).max(1)
            keep = (confidence > THRESHOLD).float()
            loss = F.cross_entropy(supervised, y)
            loss = loss + (F.cross_entropy(on_strong, pseudo, reduction="none") * keep).mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += loss.item()
            used += keep.mean().item()
        print(f"epoch {epoch}: loss {total / len(batches):.4f} pseudo-labelled {used / len(batches):.2f}", flush=True)


if __name__ == "__main__":
    main()
