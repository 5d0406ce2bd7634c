"""Short epochs over an archive of spectra. Each worker opens the archive when it reads for the first time."""

import argparse
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, Subset


class Archive:
    """A large file with an index, which must be read before the first spectrum."""

    def __init__(self, seed, count, length, open_s):
        time.sleep(open_s)
        self.values = np.random.default_rng(seed).standard_normal((count, length)).astype(np.float32)

    def read(self, index):
        time.sleep(0.002)
        return self.values[index]


class Spectra(Dataset):
    def __init__(self, count, length, open_s):
        self.count, self.length, self.open_s = count, length, open_s
        self.archive = None  # an open file cannot go to another process

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if self.archive is None:
            self.archive = Archive(3, self.count, self.length, self.open_s)
        spectrum = self.archive.read(index)
        return {"spectrum": torch.from_numpy(spectrum), "target": torch.tensor(float(spectrum[:16].sum()))}


class Regressor(torch.nn.Module):
    def __init__(self, length, device_s):
        super().__init__()
        self.device_s = device_s
        self.hidden = torch.nn.Linear(length, 24)
        self.out = torch.nn.Linear(24, 1)

    def forward(self, spectrum):
        time.sleep(self.device_s)  # the accelerator
        return self.out(torch.tanh(self.hidden(spectrum))).squeeze(1)


def run_epoch(model, loader, optimizer):
    total = 0.0
    for batch in loader:
        optimizer.zero_grad()
        loss = F.mse_loss(model(batch["spectrum"]), batch["target"])
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=11)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--prefetch", type=int, default=2)
    parser.add_argument("--persistent", action="store_true", help="keep the workers from epoch to epoch")
    parser.add_argument("--open-ms", type=float, default=450)
    parser.add_argument("--device-ms", type=float, default=25)
    return parser.parse_args()


def main():
    args = arguments()
    torch.manual_seed(1)
    spectra = Spectra(400, 256, args.open_ms / 1000)
    chosen = np.random.default_rng(5).permutation(400)[:240].tolist()
    loader = DataLoader(
        Subset(spectra, chosen),
        batch_size=12,
        shuffle=True,
        num_workers=args.workers,
        prefetch_factor=args.prefetch,
        persistent_workers=args.persistent,
    )
    model = Regressor(256, args.device_ms / 1000)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    began = time.perf_counter()
    for epoch in range(args.epochs):
        print(f"epoch {epoch}: {run_epoch(model, loader, optimizer):.3f}", flush=True)
    print(f"trained for {time.perf_counter() - began:.2f} s")


if __name__ == "__main__":
    main()
