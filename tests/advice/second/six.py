"""Trains on one loader and validates on another, every few steps."""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Readings(Dataset):
    """Series of a sensor, each kept in a store that takes some milliseconds."""

    def __init__(self, count, seed, read_s):
        generator = torch.Generator().manual_seed(seed)
        self.series = torch.randn(count, 96, generator=generator)
        self.read_s = read_s

    def __len__(self):
        return len(self.series)

    def __getitem__(self, index):
        time.sleep(self.read_s)
        series = self.series[index]
        return series[:-1], series[-1]


def connect(worker):
    time.sleep(0.15)  # each worker logs in to the store


def together(samples):
    past, following = zip(*samples, strict=True)
    return {"past": torch.stack(past), "following": torch.stack(following)}


class Forecast(nn.Module):
    def __init__(self, device_s):
        super().__init__()
        self.device_s = device_s
        self.layers = nn.Sequential(nn.Linear(95, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, past):
        time.sleep(self.device_s if self.training else self.device_s / 3)  # the accelerator
        return self.layers(past).squeeze(1)


@torch.no_grad()
def validate(model, loader):
    model.eval()
    errors = [nn.functional.l1_loss(model(batch["past"]), batch["following"]).item() for batch in loader]
    model.train()
    return sum(errors) / len(errors)


def train(model, loaders, args):
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    training, validation = loaders
    error, step = float("nan"), 0
    began = time.perf_counter()
    for epoch in range(args.epochs):
        for batch in training:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(batch["past"]), batch["following"]).backward()
            optimizer.step()
            step += 1
            if step % args.validate_every == 0:
                error = validate(model, validation)
        print(f"epoch {epoch}: error {error:.3f}", flush=True)
    print(f"trained for {time.perf_counter() - began:.2f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--prefetch", type=int, default=2)
    parser.add_argument("--validate-every", type=int, default=10, help="steps between two validations")
    parser.add_argument("--keep-validation", action="store_true", help="persistent workers for validation, too")
    parser.add_argument("--device-ms", type=float, default=27)
    args = parser.parse_args()

    torch.manual_seed(5)
    common = {
        "batch_size": 8,
        "collate_fn": together,
        "num_workers": args.workers,
        "prefetch_factor": args.prefetch,
        "worker_init_fn": connect,
    }
    training = DataLoader(Readings(240, 1, 0.003), shuffle=True, persistent_workers=True, **common)
    validation = DataLoader(Readings(96, 2, 0.003), persistent_workers=args.keep_validation, **common)
    train(Forecast(args.device_ms / 1000), (training, validation), args)


if __name__ == "__main__":
    main()
