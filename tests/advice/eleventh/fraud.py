import os
import time

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, Sampler

# card fraud: very unbalanced table, drawn with inverse-frequency weights

ROWS = 60_000
NUMERIC = 24
CARDINALITIES = [50, 400, 12, 1500]
DRAWS = 8_192
BATCH = 256


def make_table(seed=3):
    rng = np.random.default_rng(seed)
    numeric = rng.normal(size=(ROWS, NUMERIC)).astype(np.float32)
    cats = np.stack([rng.integers(0, c, ROWS) for c in CARDINALITIES], axis=1)
    score = numeric[:, :6] @ rng.normal(size=6) + 0.8 * np.sin(cats[:, 0]) + rng.normal(size=ROWS)
    fraud = (score > np.quantile(score, 0.985)).astype(np.int64)
    hour = rng.uniform(0, 24, ROWS).astype(np.float32)
    return numeric, cats, hour, fraud


class Transactions(Dataset):
    def __init__(self, numeric, cats, hour, fraud):
        self.numeric, self.cats, self.hour, self.fraud = numeric, cats, hour, fraud
        self.mean, self.std = numeric.mean(0), numeric.std(0)

    def __len__(self):
        return len(self.fraud)

    def __getitem__(self, i):
        angle = self.hour[i] * (2 * np.pi / 24)
        row = np.empty(NUMERIC + 2, np.float32)
        row[:NUMERIC] = (self.numeric[i] - self.mean) / self.std
        row[NUMERIC], row[NUMERIC + 1] = np.cos(angle), np.sin(angle)
        return row, self.cats[i], self.fraud[i]


class BalancedSampler(Sampler):
    def __init__(self, labels, num_samples, seed=0):
        counts = np.bincount(labels)
        weights = 1.0 / counts[labels]
        self.probs = weights / weights.sum()
        self.num_samples = num_samples
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return self.num_samples

    def __iter__(self):
        n = len(self.probs)
        for _ in range(self.num_samples):
            yield int(self.rng.choice(n, p=self.probs))


class FraudNet(nn.Module):
    def __init__(self, hidden=640):
        super().__init__()
        self.embed = nn.ModuleList([nn.Embedding(c, 16) for c in CARDINALITIES])
        self.mlp = nn.Sequential(
            nn.Linear(NUMERIC + 2 + 16 * len(CARDINALITIES), hidden), nn.ReLU(), nn.Dropout(0.1),
            nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout(0.1),
            nn.Linear(hidden, hidden), nn.ReLU(),
            nn.Linear(hidden, 2))

    def forward(self, numeric, cats):
        parts = [emb(cats[:, j]) for j, emb in enumerate(self.embed)]
        return self.mlp(torch.cat([numeric, *parts], dim=1))


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    epochs = int(os.environ.get("EPOCHS", "6"))

    numeric, cats, hour, fraud = make_table()
    print("rows %d, fraud %.2f%%" % (ROWS, 100 * fraud.mean()))
    dataset = Transactions(numeric, cats, hour, fraud)
    loader = DataLoader(
        dataset,
        batch_size=BATCH,
        sampler=BalancedSampler(fraud, DRAWS),
        num_workers=2,
        persistent_workers=True,
    )

    model = FraudNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    criterion = nn.CrossEntropyLoss()

    for epoch in range(epochs):
        t = time.time()
        running, tp, fp, fn = 0.0, 0, 0, 0
        for numeric_b, cats_b, target in loader:
            logits = model(numeric_b, cats_b)
            loss = criterion(logits, target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running += loss.item()
            pred = logits.argmax(1)
            tp += int(((pred == 1) & (target == 1)).sum())
            fp += int(((pred == 1) & (target == 0)).sum())
            fn += int(((pred == 0) & (target == 1)).sum())
        f1 = 2 * tp / max(1, 2 * tp + fp + fn)
        print("epoch %d: loss %.4f, F1 %.3f, %.1f s" % (epoch, running / len(loader), f1, time.time() - t))


if __name__ == "__main__":
    main()
