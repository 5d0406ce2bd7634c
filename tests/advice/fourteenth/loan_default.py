import os
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

EPOCHS = int(os.environ.get("EPOCHS", 6))
ROWS, NUMERIC, CATEGORIES = 130_000, 24, (12, 50, 7, 30)
BATCH = 250


def loan_table(seed=17):
    rng = np.random.default_rng(seed)
    numeric = rng.standard_normal((ROWS, NUMERIC), dtype=np.float32)
    codes = np.stack([rng.integers(0, c, ROWS) for c in CATEGORIES], 1)
    risk = numeric @ rng.normal(0, 0.35, NUMERIC) + 0.4 * np.sin(codes[:, 1])
    risk += 0.5 * numeric[:, 0] * numeric[:, 3] - 2.2
    default = rng.random(ROWS) < 1 / (1 + np.exp(-risk))
    return (torch.from_numpy(numeric), torch.from_numpy(codes),
            torch.from_numpy(default.astype(np.float32)))


class Loans(Dataset):
    def __init__(self, numeric, codes, default):
        self.numeric, self.codes, self.default = numeric, codes, default

    def __len__(self):
        return len(self.default)

    def __getitem__(self, rows):
        rows = torch.as_tensor(rows)
        return self.numeric[rows], self.codes[rows], self.default[rows]


class RiskModel(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(c, 6) for c in CATEGORIES)
        self.net = nn.Sequential(
            nn.Linear(NUMERIC + 6 * len(CATEGORIES), width), nn.ReLU(), nn.Dropout(0.1),
            nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.1),
            nn.Linear(width, 1),
        )

    def forward(self, numeric, codes):
        embedded = [table(codes[:, i]) for i, table in enumerate(self.tables)]
        return self.net(torch.cat([numeric, *embedded], 1)).squeeze(1)


class ScoreBook:
    """Keeps the scores of the epoch for metrics that cannot be averaged over batches."""

    def __init__(self):
        self.scores, self.targets = [], []

    def add(self, scores, targets):
        self.scores.append(scores.detach().numpy().copy())
        self.targets.append(targets.numpy().copy())

    def auc(self):
        scores = np.concatenate(self.scores)
        targets = np.concatenate(self.targets) > 0.5
        values, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
        rank = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
        positives = targets.sum()
        negatives = len(targets) - positives
        if positives == 0 or negatives == 0:
            return float("nan")
        return float((rank[targets].sum() - positives * (positives + 1) / 2)
                     / (positives * negatives))


def main():
    torch.manual_seed(17)
    torch.set_num_threads(1)
    loans = Loans(*loan_table())
    batches = BatchSampler(RandomSampler(loans), BATCH, drop_last=False)
    loader = DataLoader(loans, sampler=batches, batch_size=None)
    model = RiskModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-3)
    weight = torch.tensor(4.0)

    for epoch in range(EPOCHS):
        began = time.perf_counter()
        model.train()
        book = ScoreBook()
        smooth = None
        for step, (numeric, codes, default) in enumerate(loader, 1):
            logits = model(numeric, codes)
            loss = F.binary_cross_entropy_with_logits(logits, default, pos_weight=weight)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

            book.add(logits, default)
            smooth = loss.item() if smooth is None else 0.98 * smooth + 0.02 * loss.item()
            status = {"loss": smooth, "auc": book.auc()}
            if step % 100 == 0:
                text = " ".join(f"{name} {value:.4f}" for name, value in status.items())
                print(f"epoch {epoch} step {step}/{len(loader)} {text}", flush=True)
        print(f"epoch {epoch}: auc {book.auc():.4f} "
              f"({time.perf_counter() - began:.1f}s)", flush=True)


if __name__ == "__main__":
    main()
