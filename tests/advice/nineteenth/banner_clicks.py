"""Click-through model for display banners, trained from an impression log."""
import os

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

EPOCHS = int(os.environ.get("EPOCHS", 6))
IMPRESSIONS, BATCH = 120000, 512
USERS, BANNERS, SITES, DENSE = 8000, 1500, 300, 12


def impression_log(seed=0):
    rng = np.random.default_rng(seed)
    users = rng.integers(0, USERS, IMPRESSIONS)
    banners = (BANNERS * rng.random(IMPRESSIONS) ** 2).astype(np.int64)
    sites = rng.integers(0, SITES, IMPRESSIONS)
    dense = rng.standard_normal((IMPRESSIONS, DENSE), dtype=np.float32)
    taste = rng.normal(0, 1, USERS)[users] + rng.normal(0, 1, BANNERS)[banners] + dense[:, 0]
    clicks = (rng.random(IMPRESSIONS) < 1 / (1 + np.exp(2.0 - taste))).astype(np.float32)
    return {"ids": np.stack([users, banners, sites], 1), "dense": dense, "click": clicks}


class ImpressionStream(IterableDataset):
    """Yields ready batches: a fresh permutation of the log for every pass."""

    def __init__(self, log, batch_size, seed=0):
        self.log = {name: torch.from_numpy(column) for name, column in log.items()}
        self.batch_size = batch_size
        self.generator = torch.Generator().manual_seed(seed)

    def __len__(self):
        return len(self.log["click"]) // self.batch_size

    def __iter__(self):
        order = torch.randperm(len(self.log["click"]), generator=self.generator)
        for rows in order[:len(self) * self.batch_size].split(self.batch_size):
            yield {name: column[rows] for name, column in self.log.items()}


class RunningAUC:
    """Area under the ROC curve over the impressions of the current pass."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.scores, self.clicks = [], []
        self.value = 0.5

    def update(self, scores, clicks):
        self.scores.append(scores.numpy())
        self.clicks.append(clicks.numpy())
        self.value = self.compute()

    def compute(self):
        scores = np.concatenate(self.scores)
        clicks = np.concatenate(self.clicks) > 0.5
        _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
        ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
        positive = int(clicks.sum())
        negative = len(clicks) - positive
        if not positive or not negative:
            return 0.5
        return float((ranks[clicks].sum() - positive * (positive + 1) / 2) / (positive * negative))


class ClickNet(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, dim) for size in (USERS, BANNERS, SITES))
        self.mlp = nn.Sequential(
            nn.Linear(3 * dim + DENSE, 256), nn.ReLU(),
            nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 1))

    def forward(self, ids, dense):
        parts = [table(ids[:, i]) for i, table in enumerate(self.tables)]
        return self.mlp(torch.cat(parts + [dense], 1)).squeeze(1)


def main():
    torch.manual_seed(1)
    loader = DataLoader(ImpressionStream(impression_log(), BATCH), batch_size=None)
    model = ClickNet()
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02)
    auc = RunningAUC()
    for epoch in range(EPOCHS):
        auc.reset()
        smooth = None
        for step, batch in enumerate(loader, 1):
            logits = model(batch["ids"], batch["dense"])
            loss = nn.functional.binary_cross_entropy_with_logits(logits, batch["click"])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            auc.update(logits.detach().sigmoid(), batch["click"])
            smooth = loss.item() if smooth is None else 0.98 * smooth + 0.02 * loss.item()
            if step % 100 == 0:
                print(f"epoch {epoch + 1} step {step}: loss {smooth:.4f} auc {auc.value:.4f}", flush=True)
        print(f"epoch {epoch + 1}: loss {smooth:.4f} auc {auc.value:.4f}", flush=True)


if __name__ == "__main__":
    main()
