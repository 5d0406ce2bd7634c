"""Cells of a plate scanner: each image is read from a file share, in the training process itself."""

import argparse
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class FileShare:
    """Answers each request after some milliseconds."""

    def __init__(self, delay_s, images, size):
        self.delay_s = delay_s
        rng = np.random.default_rng(7)
        self.pixels = rng.integers(0, 255, (images, 1, size, size), dtype=np.uint8)
        self.kinds = rng.integers(0, 4, images)

    def get(self, index):
        time.sleep(self.delay_s)
        return self.pixels[index]


class Cells(Dataset):
    def __init__(self, share):
        self.share = share

    def __len__(self):
        return len(self.share.pixels)

    def __getitem__(self, index):
        image = torch.from_numpy(self.share.get(index)).float().div_(255)
        return image, int(self.share.kinds[index])


class Net(nn.Module):
    def __init__(self, size, device_s):
        super().__init__()
        self.device_s = device_s
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(size * size, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, images):
        time.sleep(self.device_s)  # the accelerator
        return self.layers(images)


class Trainer:
    def __init__(self, args):
        self.args = args
        share = FileShare(args.read_ms / 1000, args.images, args.size)
        self.loader = DataLoader(
            Cells(share),
            batch_size=args.batch_size,
            shuffle=True,
            num_workers=args.workers,
            persistent_workers=args.workers > 0,
        )
        self.net = Net(args.size, args.device_ms / 1000)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.05)
        self.criterion = nn.CrossEntropyLoss()

    def step(self, images, kinds):
        self.optimizer.zero_grad()
        loss = self.criterion(self.net(images), kinds)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def fit(self):
        began = time.perf_counter()
        for epoch in range(self.args.epochs):
            losses = [self.step(images, kinds) for images, kinds in self.loader]
            print(f"epoch {epoch}: loss {np.mean(losses):.3f}", flush=True)
        print(f"trained for {time.perf_counter() - began:.2f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--images", type=int, default=160)
    parser.add_argument("--size", type=int, default=48)
    parser.add_argument("--read-ms", type=float, default=9)
    parser.add_argument("--device-ms", type=float, default=22)
    args = parser.parse_args()
    torch.manual_seed(0)
    Trainer(args).fit()


if __name__ == "__main__":
    main()
