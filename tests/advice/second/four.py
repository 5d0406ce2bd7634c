"""A small autoencoder, which keeps its state on a network drive every few steps."""

import argparse
import io
import time
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Patches(Dataset):
    def __init__(self, count):
        generator = torch.Generator().manual_seed(4)
        self.patches = torch.rand(count, 256, generator=generator)

    def __len__(self):
        return len(self.patches)

    def __getitem__(self, index):
        time.sleep(0.002)  # a local disk
        return self.patches[index]


class Autoencoder(nn.Module):
    def __init__(self, device_s):
        super().__init__()
        self.device_s = device_s
        self.encode = nn.Sequential(nn.Linear(256, 64), nn.GELU())
        self.decode = nn.Linear(64, 256)

    def forward(self, patches):
        time.sleep(self.device_s)  # the accelerator
        return self.decode(self.encode(patches))


@dataclass
class Drive:
    """A network drive: what is written is there when the call returns."""

    delay_s: float
    files: dict = field(default_factory=dict)

    def write(self, name, content):
        time.sleep(self.delay_s)
        self.files[name] = content


@dataclass
class Checkpoints:
    drive: Drive
    every: int

    def after(self, step, model, optimizer):
        if (step + 1) % self.every == 0:
            buffer = io.BytesIO()
            torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, buffer)
            self.drive.write("last.pt", buffer.getvalue())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--prefetch", type=int, default=2)
    parser.add_argument("--save-every", type=int, default=4, help="steps between two checkpoints")
    parser.add_argument("--drive-ms", type=float, default=160)
    parser.add_argument("--device-ms", type=float, default=24)
    parser.add_argument("--fixed", action="store_true", help="one checkpoint each second epoch")
    args = parser.parse_args()

    torch.manual_seed(3)
    loader = DataLoader(
        Patches(192),
        batch_size=8,
        shuffle=True,
        num_workers=args.workers,
        prefetch_factor=args.prefetch if args.workers else None,
        persistent_workers=args.workers > 0,
    )
    model = Autoencoder(args.device_ms / 1000)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    every = 2 * len(loader) if args.fixed else args.save_every
    checkpoints = Checkpoints(Drive(args.drive_ms / 1000), every)

    step = 0
    began = time.perf_counter()
    for epoch in range(args.epochs):
        for patches in loader:
            loss = nn.functional.mse_loss(model(patches), patches)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            checkpoints.after(step, model, optimizer)
            step += 1
        print(f"epoch {epoch}: loss {loss.item():.4f}", flush=True)
    print(f"trained for {time.perf_counter() - began:.2f} s")


if __name__ == "__main__":
    main()
