"""Pairs of pictures and captions from an object store. The accelerator is what takes the time."""

import argparse
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Pairs(IterableDataset):
    """A stream. Each worker reads every n-th pair."""

    def __init__(self, count, read_s):
        self.count, self.read_s = count, read_s

    def __iter__(self):
        worker = get_worker_info()
        first, stride = (worker.id, worker.num_workers) if worker else (0, 1)
        for number in range(first, self.count, stride):
            time.sleep(self.read_s)
            yield self.pair(number)

    @staticmethod
    def pair(number):
        rng = np.random.default_rng(number)
        picture = rng.random(192, dtype=np.float32)
        words = rng.integers(1, 500, rng.integers(4, 12))
        return picture, words


def pad(pairs):
    """Captions of one batch get the same length."""
    longest = max(len(words) for _, words in pairs)
    captions = torch.zeros(len(pairs), longest, dtype=torch.long)
    for row, (_, words) in enumerate(pairs):
        captions[row, : len(words)] = torch.from_numpy(words)
    return torch.from_numpy(np.stack([picture for picture, _ in pairs])), captions


class TwoTowers(nn.Module):
    def __init__(self, device_s):
        super().__init__()
        self.device_s = device_s
        self.pictures = nn.Linear(192, 32)
        self.words = nn.EmbeddingBag(500, 32, padding_idx=0)

    def forward(self, pictures, captions):
        time.sleep(self.device_s)  # the accelerator
        left = nn.functional.normalize(self.pictures(pictures), dim=1)
        right = nn.functional.normalize(self.words(captions), dim=1)
        return left @ right.T / 0.1


def contrast(scores):
    own = torch.arange(len(scores))
    return (nn.functional.cross_entropy(scores, own) + nn.functional.cross_entropy(scores.T, own)) / 2


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--prefetch", type=int, default=4)
    parser.add_argument("--pairs", type=int, default=256)
    parser.add_argument("--read-ms", type=float, default=4)
    parser.add_argument("--device-ms", type=float, default=48)
    args = parser.parse_args()

    torch.manual_seed(7)
    loader = DataLoader(
        Pairs(args.pairs, args.read_ms / 1000),
        batch_size=8,
        collate_fn=pad,
        num_workers=args.workers,
        prefetch_factor=args.prefetch if args.workers else None,
        persistent_workers=args.workers > 0,
    )
    model = TwoTowers(args.device_ms / 1000)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    began = time.perf_counter()
    for epoch in range(args.epochs):
        losses = []
        for pictures, captions in loader:
            optimizer.zero_grad()
            loss = contrast(model(pictures, captions))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        print(f"epoch {epoch}: loss {sum(losses) / len(losses):.3f}", flush=True)
    print(f"trained for {time.perf_counter() - began:.2f} s")


if __name__ == "__main__":
    main()
