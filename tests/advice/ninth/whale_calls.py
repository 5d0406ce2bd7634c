"""Right-whale upcall detector; part of the hydrophone archive has been migrated to tape."""
import os
import time

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
EPOCHS = int(os.environ.get("EPOCHS", 4))

SR = 2000
CLIP = 2 * SR
N_CLIPS = 1280
RECALL_SECONDS = 0.6     # stage-in of a migrated file; disk files are immediate


class HydrophoneArchive:
    """Stands in for the HSM client: same call for disk and tape, tape takes its time."""

    def __init__(self, n, seed):
        self.rng_seed = seed
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, 2, n)
        self.on_tape = np.zeros(n, bool)
        self.on_tape[rng.choice(n, 8, replace=False)] = True
        t = np.arange(CLIP) / SR
        # upcall: 60 -> 220 Hz sweep
        self.call = (np.sin(2 * np.pi * (60 * t + 40 * t ** 2)) * np.hanning(CLIP)).astype(np.float32)
        self.sea = rng.normal(size=CLIP * 4).astype(np.float32)

    def read(self, i):
        if self.on_tape[i]:
            time.sleep(RECALL_SECONDS)
        start = (i * 7919) % (CLIP * 3)
        x = self.sea[start:start + CLIP].copy()
        if self.labels[i]:
            x += 0.4 * np.roll(self.call, (i * 31) % 500)
        return x


class Clips(Dataset):
    def __init__(self, archive):
        self.archive = archive

    def __len__(self):
        return len(self.archive.labels)

    def __getitem__(self, i):
        x = torch.from_numpy(self.archive.read(i))
        return x / x.abs().max(), int(self.archive.labels[i])


class UpcallNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("win", torch.hann_window(256))
        self.conv = nn.Sequential(
            nn.Conv2d(1, 8, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d((4, 2)),
        )
        self.gru = nn.GRU(16 * 16, 32, batch_first=True)
        self.out = nn.Linear(32, 2)

    def forward(self, x):
        s = torch.stft(x, 256, 64, window=self.win, return_complex=True).abs()
        s = torch.log1p(s)[:, None, :128]
        h = self.conv(s).flatten(1, 2).transpose(1, 2)
        return self.out(self.gru(h)[0].mean(1))


def main():
    torch.manual_seed(99)
    archive = HydrophoneArchive(N_CLIPS, seed=99)
    loader = DataLoader(
        Clips(archive),
        batch_size=8,
        shuffle=True,
        num_workers=4,
        prefetch_factor=2,
        persistent_workers=True,
    )
    net = UpcallNet()
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    print(f"{N_CLIPS} clips, {int(archive.on_tape.sum())} on tape")
    for epoch in range(EPOCHS):
        began = time.time()
        running, right = 0.0, 0
        for wav, label in loader:
            logits = net(wav)
            loss = criterion(logits, label)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            running += loss.item() * len(label)
            right += (logits.argmax(1) == label).sum().item()
        print("Epoch {:d}/{:d}  loss {:.3f}  acc {:.1%}  [{:.1f} s]".format(
            epoch + 1, EPOCHS, running / N_CLIPS, right / N_CLIPS, time.time() - began))


if __name__ == "__main__":
    main()
