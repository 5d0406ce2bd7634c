#!/usr/bin/env python
"""Churn prediction from a customer table: categorical embeddings + MLP, AUC as the number to watch."""
import argparse
import logging
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
from scipy.stats import rankdata

log = logging.getLogger("churn")
FOLDER = Path(__file__).parent / "data" / "churn"
CATS = {"plan": 12, "region": 40, "device": 150, "channel": 9, "agent": 600}
NUMS = [f"use_{i:02d}" for i in range(20)]


def synthesise(csv, rows=70_000):
    if csv.exists():
        return
    csv.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(23)
    cols = {name: rng.integers(0, size, rows) for name, size in CATS.items()}
    score = np.zeros(rows)
    for name, size in CATS.items():
        score += rng.normal(0, 0.5, size)[cols[name]]
    use = rng.gamma(2.0, 1.0, (rows, len(NUMS))).round(4)
    score += (use[:, :6] @ rng.normal(0, 0.3, 6)) - 0.4 * np.abs(use[:, 6] - use[:, 7])
    cols.update({name: use[:, i] for i, name in enumerate(NUMS)})
    prob = 1 / (1 + np.exp(-(score - score.mean())))
    cols["churned"] = (rng.random(rows) < prob).astype(int)
    frame = pd.DataFrame(cols)
    frame.to_csv(csv.with_suffix(".part"), index=False)
    csv.with_suffix(".part").rename(csv)


def load_table(csv):
    frame = pd.read_csv(csv)
    nums = np.log1p(frame[NUMS].to_numpy(np.float32))
    nums = (nums - nums.mean(0)) / nums.std(0)
    cats = frame[list(CATS)].to_numpy(np.int64, copy=True)
    target = frame["churned"].to_numpy(np.float32, copy=True)
    return torch.from_numpy(cats), torch.from_numpy(nums), torch.from_numpy(target)


class ChurnNet(nn.Module):
    def __init__(self, width=128, drop=0.1):
        super().__init__()
        dims = [min(24, 2 + size // 4) for size in CATS.values()]
        self.tables = nn.ModuleList(nn.Embedding(size, d) for size, d in zip(CATS.values(), dims))
        self.mlp = nn.Sequential(
            nn.Linear(sum(dims) + len(NUMS), width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(drop),
            nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(drop),
            nn.Linear(width, 1))

    def forward(self, cats, nums):
        parts = [table(cats[:, i]) for i, table in enumerate(self.tables)]
        return self.mlp(torch.cat(parts + [nums], 1)).squeeze(1)


class AUC:
    """Area under the ROC curve over everything seen since the last reset."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.scores, self.targets = [], []

    def update(self, score, target):
        self.scores.append(score.detach().numpy())
        self.targets.append(target.numpy())

    def compute(self):
        score, target = np.concatenate(self.scores), np.concatenate(self.targets)
        pos = target.sum()
        neg = len(target) - pos
        if pos == 0 or neg == 0:
            return 0.5
        return float((rankdata(score)[target == 1].sum() - pos * (pos + 1) / 2) / (pos * neg))

    def __call__(self, score, target):
        self.update(score, target)
        return self.compute()


def batches(tensors, size, generator=None):
    n = len(tensors[0])
    order = torch.arange(n) if generator is None else torch.randperm(n, generator=generator)
    for i in range(0, n, size):
        yield [t[order[i:i + size]] for t in tensors]


def train_epoch(model, opt, data, args, gen, metric):
    model.train()
    metric.reset()
    total, seen = 0.0, 0
    for step, (cats, nums, y) in enumerate(batches(data, args.batch_size, gen), 1):
        logit = model(cats, nums)
        loss = nn.functional.binary_cross_entropy_with_logits(logit, y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        total += loss.item() * len(y)
        seen += len(y)
        auc = metric(logit, y)
        if step % args.log_every == 0:
            log.info("step %4d loss %.4f auc %.4f", step, total / seen, auc)
    return total / seen


@torch.no_grad()
def evaluate(model, data, metric):
    model.eval()
    metric.reset()
    for cats, nums, y in batches(data, 4096):
        metric.update(model(cats, nums), y)
    return metric.compute()


def main(args):
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.manual_seed(args.seed)
    synthesise(FOLDER / "customers.csv")
    tensors = load_table(FOLDER / "customers.csv")
    cut = int(len(tensors[0]) * 0.85)
    train, test = [t[:cut] for t in tensors], [t[cut:] for t in tensors]
    model, metric = ChurnNet(), AUC()
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    gen = torch.Generator().manual_seed(args.seed)
    for epoch in range(args.epochs):
        loss = train_epoch(model, opt, train, args, gen, metric)
        print(f"epoch {epoch}: loss {loss:.4f} test auc {evaluate(model, test, metric):.4f}", flush=True)


if __name__ == "__main__":
    cli = argparse.ArgumentParser()
    cli.add_argument("--epochs", type=int, default=3)
    cli.add_argument("--batch-size", type=int, default=128)
    cli.add_argument("--log-every", type=int, default=100)
    cli.add_argument("--lr", type=float, default=1e-3)
    cli.add_argument("--seed", type=int, default=0)
    main(cli.parse_args())
