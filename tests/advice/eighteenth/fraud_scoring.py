"""Score card payments for fraud: entity embeddings and numeric columns through an MLP."""
import os
import sys

import numpy as np
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

EPOCHS = int(os.environ.get("EPOCHS", 6))
PAYMENTS = 150000
NUMERIC = 24
CARDINALITY = [50, 300, 1200, 12]
BATCH = 128


def payments(seed=9):
    rng = np.random.default_rng(seed)
    numeric = rng.normal(0, 1, (PAYMENTS, NUMERIC)).astype(np.float32)
    codes = np.stack([rng.integers(0, c, PAYMENTS) for c in CARDINALITY], 1)
    risk = numeric[:, :6].sum(1) * 0.5 + (codes[:, 0] % 7 == 0) * 1.5 + (codes[:, 3] == 2) * 1.2
    fraud = rng.random(PAYMENTS) < 1 / (1 + np.exp(4.0 - risk))
    return numeric, codes, fraud.astype(np.float32)


class Payments(Dataset):
    """Takes a list of row numbers and gives the rows as one batch."""

    def __init__(self, numeric, codes, fraud):
        self.numeric = torch.from_numpy(numeric)
        self.codes = torch.from_numpy(codes)
        self.fraud = torch.from_numpy(fraud)

    def __len__(self):
        return len(self.fraud)

    def __getitem__(self, rows):
        rows = torch.as_tensor(rows)
        return self.numeric[rows], self.codes[rows], self.fraud[rows]


class Scorer(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Embedding(c, dim) for c in CARDINALITY)
        width = NUMERIC + dim * len(CARDINALITY)
        self.mlp = nn.Sequential(
            nn.BatchNorm1d(width), nn.Linear(width, 128), nn.ReLU(),
            nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, numeric, codes):
        parts = [table(codes[:, i]) for i, table in enumerate(self.embeddings)]
        return self.mlp(torch.cat([numeric, *parts], 1)).squeeze(1)


class EpochMetrics:
    """Loss and area under the ROC curve of what the epoch has seen."""

    def __init__(self):
        self.scores, self.targets, self.losses = [], [], []

    def update(self, logits, target, loss):
        self.scores.append(logits.detach())
        self.targets.append(target)
        self.losses.append(loss.item())

    def compute(self):
        scores = torch.cat(self.scores).numpy()
        target = torch.cat(self.targets).numpy() > 0.5
        ranks = np.empty(len(scores))
        ranks[np.argsort(scores)] = np.arange(1, len(scores) + 1)
        hits = int(target.sum())
        misses = len(target) - hits
        auc = (ranks[target].sum() - hits * (hits + 1) / 2) / max(hits * misses, 1)
        return {"loss": float(np.mean(self.losses)), "auc": float(auc)}


def show(epoch, step, steps, values, end):
    text = " ".join(f"{k}={v:.4f}" for k, v in values.items())
    sys.stderr.write(f"\repoch {epoch} [{step}/{steps}] {text}{end}")


def main():
    torch.manual_seed(0)
    dataset = Payments(*payments())
    batches = BatchSampler(RandomSampler(dataset), BATCH, drop_last=True)
    loader = DataLoader(dataset, sampler=batches, batch_size=None)
    model = Scorer()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(4.0))
    for epoch in range(EPOCHS):
        metrics = EpochMetrics()
        for step, (numeric, codes, fraud) in enumerate(loader, 1):
            logits = model(numeric, codes)
            loss = criterion(logits, fraud)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            metrics.update(logits, fraud, loss)
            values = metrics.compute()
            if step % 25 == 0:
                show(epoch, step, len(loader), values, "")
        show(epoch, step, len(loader), values, "\n")


if __name__ == "__main__":
    main()
