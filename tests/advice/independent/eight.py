"""Recommender with importance sampling: batches are drawn by a weighted batch_sampler."""

import argparse
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler


class Interactions(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        time.sleep(0.0002)  # look the pair up in the feature store
        return {"user": i % 5000, "item": (i * 31) % 2000, "rating": float(i % 5)}


class WeightedBatchSampler(Sampler):
    """Draws every batch in proportion to the weights."""

    def __init__(self, weights, batch_size, steps, fixed=False, seed=0):
        self.p = weights / weights.sum()
        self.batch_size, self.steps, self.fixed = batch_size, steps, fixed
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return self.steps

    def __iter__(self):
        if self.fixed:  # one table for the epoch
            cdf = np.cumsum(self.p)
            for _ in range(self.steps):
                yield np.searchsorted(cdf, self.rng.random(self.batch_size) * cdf[-1]).tolist()
        else:
            for _ in range(self.steps):
                yield self.rng.choice(len(self.p), size=self.batch_size, p=self.p).tolist()


class MatrixFactorization(nn.Module):
    def __init__(self, users=5000, items=2000, dim=16):
        super().__init__()
        self.users = nn.Embedding(users, dim)
        self.items = nn.Embedding(items, dim)

    def forward(self, user, item):
        return (self.users(user) * self.items(item)).sum(-1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--steps", type=int, default=100, help="batches per epoch")
    p.add_argument("--rows", type=int, default=4_000_000)
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--num-workers", type=int, default=2)
    p.add_argument("--prefetch-factor", type=int, default=2)
    p.add_argument("--no-persistent", action="store_true")
    p.add_argument("--fixed", action="store_true", help="sampler with one cumulative table")
    args = p.parse_args()

    weights = np.random.default_rng(1).exponential(size=args.rows)
    sampler = WeightedBatchSampler(weights, args.batch_size, args.steps, args.fixed)
    options = dict(batch_sampler=sampler, num_workers=args.num_workers)
    if args.num_workers:
        options.update(prefetch_factor=args.prefetch_factor, persistent_workers=not args.no_persistent)
    loader = DataLoader(Interactions(args.rows), **options)
    model = MatrixFactorization()
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
    start = time.time()
    for epoch in range(args.epochs):
        t0, total = time.time(), 0.0
        for batch in loader:
            opt.zero_grad()
            loss = nn.functional.mse_loss(model(batch["user"], batch["item"]), batch["rating"].float())
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"epoch {epoch}: mse {total / args.steps:.3f}, {time.time() - t0:.2f} s", flush=True)
    print(f"trained for {time.time() - start:.2f} s")


if __name__ == "__main__":
    main()
