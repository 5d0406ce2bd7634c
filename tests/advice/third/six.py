"""Shapes from lidar point clouds, with validation after each epoch and a metrics server."""

import argparse
import json
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SHAPES = 5


class MetricsClient:
    """Sends what it has gathered to the experiment tracker, over HTTPS."""

    def __init__(self, every):
        self.every = every
        self.pending = []

    def add(self, **values):
        self.pending.append(values)
        if len(self.pending) >= self.every:
            self.flush()

    def flush(self):
        if self.pending:
            json.dumps(self.pending)
            time.sleep(0.030)  # answer of the server
            self.pending.clear()


class Sweeps(Dataset):
    def __init__(self, n, seconds, jitter=0.0):
        self.n, self.seconds, self.jitter = n, seconds, jitter

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        time.sleep(self.seconds)  # read a sweep
        rng = np.random.default_rng(i)
        label = i % SHAPES
        cloud = rng.normal(size=(128, 3)).astype(np.float32) * (1 + np.float32(label))
        if self.jitter:
            cloud += rng.normal(scale=self.jitter, size=cloud.shape).astype(np.float32)
        return torch.from_numpy(cloud), label


class PointNetish(nn.Module):
    def __init__(self):
        super().__init__()
        self.point = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 16))
        self.cls = nn.Linear(16, SHAPES)

    def forward(self, clouds):
        return self.cls(self.point(clouds).amax(1))


def build_loader(dataset, batch, workers, shuffle):
    return DataLoader(dataset, batch_size=batch, shuffle=shuffle, num_workers=workers, persistent_workers=workers > 0)


def train(model, loader, opt, tracker, epoch):
    model.train()
    for step, (clouds, labels) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(clouds), labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        time.sleep(0.040)  # accelerator
        tracker.add(epoch=epoch, step=step, loss=loss.item())
    return loss.item()


@torch.no_grad()
def validate(model, loader):
    model.eval()
    right = total = 0
    for clouds, labels in loader:
        right += (model(clouds).argmax(1) == labels).sum().item()
        total += len(labels)
        time.sleep(0.026)  # accelerator
    return right / total


def main():
    cli = argparse.ArgumentParser(description=__doc__)
    cli.add_argument("--epochs", type=int, default=3)
    cli.add_argument("--batch", type=int, default=8)
    cli.add_argument("--train-workers", type=int, default=3)
    cli.add_argument("--val-workers", type=int, default=0)
    cli.add_argument("--report-every", type=int, default=1, help="steps between two messages to the tracker")
    a = cli.parse_args()

    torch.manual_seed(3)
    train_loader = build_loader(Sweeps(36 * a.batch, 0.007, jitter=0.02), a.batch, a.train_workers, True)
    val_loader = build_loader(Sweeps(40 * a.batch, 0.0045), a.batch, a.val_workers, False)
    model = PointNetish()
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    tracker = MetricsClient(a.report_every)

    t0 = time.perf_counter()
    for epoch in range(a.epochs):
        loss = train(model, train_loader, opt, tracker, epoch)
        accuracy = validate(model, val_loader)
        print(f"epoch {epoch}  loss {loss:.3f}  val acc {accuracy:.2%}", flush=True)
    tracker.flush()
    print(f"trained for {time.perf_counter() - t0:.2f} s")


if __name__ == "__main__":
    main()
