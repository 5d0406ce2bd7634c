"""Click-through-rate model (DeepFM) on a log of ad impressions."""
import argparse
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from scipy.stats import rankdata
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, SequentialSampler

HERE = Path(__file__).resolve().parent
DATA = HERE / "data" / "ad_clicks"
FIELDS = (4000, 1500, 300, 60, 24, 12, 7, 2000)
N_TRAIN, N_VAL = 80000, 10000


def make_data():
    if (DATA / "impressions.npz").exists():
        return
    DATA.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(31)
    rows = N_TRAIN + N_VAL
    columns, logit = [], np.full(rows, -1.4)
    for size in FIELDS:
        column = (rng.beta(0.7, 2.0, rows) * size).astype(np.int64)
        columns.append(column)
        logit += rng.normal(0, 0.45, size)[column]
    pair = rng.normal(0, 0.8, (60, 24))
    logit += pair[columns[3], columns[4]]
    numeric = rng.lognormal(0, 1, (rows, 6)).astype(np.float32)
    logit += 0.4 * np.log1p(numeric[:, 0]) - 0.3 * np.log1p(numeric[:, 1])
    clicks = (rng.random(rows) < 1 / (1 + np.exp(-logit))).astype(np.float32)
    np.savez(DATA / "impressions.npz", categories=np.stack(columns, 1), numeric=numeric, clicks=clicks)


class ImpressionDataset(Dataset):
    def __init__(self, lo, hi):
        with np.load(DATA / "impressions.npz") as f:
            shift = np.concatenate([[0], np.cumsum(FIELDS)[:-1]])
            self.categories = torch.from_numpy(f["categories"][lo:hi] + shift)
            self.numeric = torch.from_numpy(np.log1p(f["numeric"][lo:hi]))
            self.clicks = torch.from_numpy(f["clicks"][lo:hi])

    def __len__(self):
        return len(self.clicks)

    def __getitem__(self, rows):
        return self.categories[rows], self.numeric[rows], self.clicks[rows]


class AucMeter:
    """ROC AUC of everything added since the last reset (rank statistic, ties averaged)."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.scores, self.labels = [], []

    def update(self, scores, labels):
        self.scores.append(scores.detach().numpy())
        self.labels.append(labels.numpy())

    def compute(self):
        labels = np.concatenate(self.labels)
        ranks = rankdata(np.concatenate(self.scores))
        positive = labels.sum()
        negative = len(labels) - positive
        return (ranks[labels == 1].sum() - positive * (positive + 1) / 2) / max(positive * negative, 1)


class DeepFM(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.bias = nn.Embedding(sum(FIELDS), 1)
        self.factors = nn.Embedding(sum(FIELDS), width)
        nn.init.zeros_(self.bias.weight)
        nn.init.normal_(self.factors.weight, std=0.05)
        self.deep = nn.Sequential(
            nn.Linear(len(FIELDS) * width + 6, 128), nn.ReLU(), nn.Dropout(0.1),
            nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1),
        )

    def forward(self, categories, numeric):
        v = self.factors(categories)
        pairs = 0.5 * (v.sum(1).square() - v.square().sum(1)).sum(1)
        deep = self.deep(torch.cat([v.flatten(1), numeric], 1)).squeeze(1)
        return self.bias(categories).sum((1, 2)) + pairs + deep


def batches_of(dataset, batch_size, shuffle, workers=0):
    rows = RandomSampler(dataset) if shuffle else SequentialSampler(dataset)
    return DataLoader(dataset, sampler=BatchSampler(rows, batch_size, False), batch_size=None, num_workers=workers)


def train_epoch(model, loader, optimiser, meter, epoch, log_every):
    model.train()
    meter.reset()
    total = 0.0
    for step, (categories, numeric, clicks) in enumerate(loader, 1):
        logit = model(categories, numeric)
        loss = F.binary_cross_entropy_with_logits(logit, clicks)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        total += loss.item()
        meter.update(logit, clicks)
        status = f"epoch {epoch} step {step:4d}/{len(loader)} loss {total / step:.4f} auc {meter.compute():.4f}"
        if step % log_every == 0:
            print(status, flush=True)
    return total / len(loader)


def evaluate(model, loader, meter):
    model.eval()
    meter.reset()
    with torch.no_grad():
        for categories, numeric, clicks in loader:
            meter.update(model(categories, numeric), clicks)
    return meter.compute()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--log-every", type=int, default=100)
    parser.add_argument("--make", action="store_true")
    args = parser.parse_args()
    make_data()
    if args.make:
        return

    torch.set_num_threads(1)
    torch.manual_seed(8)
    train_loader = batches_of(ImpressionDataset(0, N_TRAIN), args.batch_size, shuffle=True, workers=1)
    val_loader = batches_of(ImpressionDataset(N_TRAIN, N_TRAIN + N_VAL), 2000, shuffle=False)
    model = DeepFM()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    meter = AucMeter()

    for epoch in range(args.epochs):
        began = time.time()
        loss = train_epoch(model, train_loader, optimiser, meter, epoch, args.log_every)
        auc = evaluate(model, val_loader, meter)
        print(f"epoch {epoch} loss {loss:.4f} val auc {auc:.4f} ({time.time() - began:.1f} s)", flush=True)


if __name__ == "__main__":
    main()
