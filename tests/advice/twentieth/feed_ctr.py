"""Click model for a news feed, trained on impression logs day by day."""
import os
import tempfile
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

EPOCHS = int(os.environ.get("EPOCHS", 5))
LOGS = os.path.join(os.environ.get("DATA_DIR", tempfile.gettempdir()), "feed_ctr")
DAYS = 6
ROWS_PER_DAY = 65536
FIELDS = (20000, 8000, 500, 60, 24, 7, 300, 40)
N_DENSE = 10
BATCH = 2048
PRINT_EVERY = 64


def write_logs():
    if os.path.exists(os.path.join(LOGS, f"day{DAYS - 1}_click.npy")):
        return
    os.makedirs(LOGS, exist_ok=True)
    rng = np.random.default_rng(77)
    taste = [rng.normal(0, 0.5, n) for n in FIELDS]
    for day in range(DAYS):
        cats = np.stack([rng.integers(0, n, ROWS_PER_DAY) for n in FIELDS], 1).astype(np.int32)
        dense = rng.normal(size=(ROWS_PER_DAY, N_DENSE)).astype(np.float32)
        logit = sum(t[cats[:, k]] for k, t in enumerate(taste)) + 0.4 * dense[:, 0] - 2.0
        click = rng.random(ROWS_PER_DAY) < 1 / (1 + np.exp(-logit))
        np.save(os.path.join(LOGS, f"day{day}_cats.npy"), cats)
        np.save(os.path.join(LOGS, f"day{day}_dense.npy"), dense)
        np.save(os.path.join(LOGS, f"day{day}_click.npy"), click.astype(np.float32))


class ImpressionLog(IterableDataset):
    def __iter__(self):
        for day in range(DAYS):
            cats, dense, click = (
                np.load(os.path.join(LOGS, f"day{day}_{part}.npy")) for part in ("cats", "dense", "click")
            )
            for lo in range(0, len(click), BATCH):
                rows = slice(lo, lo + BATCH)
                yield (
                    torch.from_numpy(cats[rows].astype(np.int64)),
                    torch.from_numpy(dense[rows]),
                    torch.from_numpy(click[rows]),
                )


class ClickNet(nn.Module):
    def __init__(self, dim=12):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(n, dim) for n in FIELDS)
        width = dim * len(FIELDS) + N_DENSE
        self.mlp = nn.Sequential(
            nn.Linear(width, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1)
        )

    def forward(self, cats, dense):
        parts = [table(cats[:, k]) for k, table in enumerate(self.tables)]
        return self.mlp(torch.cat(parts + [dense], 1)).squeeze(1)


class RunningAUC:
    def __init__(self):
        self.scores, self.labels = [], []

    def update(self, scores, labels):
        self.scores.append(scores.numpy())
        self.labels.append(labels.numpy())

    def compute(self):
        scores = np.concatenate(self.scores)
        labels = np.concatenate(self.labels)
        order = np.argsort(scores, kind="stable")
        ranks = np.empty(len(order))
        ranks[order] = np.arange(1, len(order) + 1)
        pos = labels.sum(dtype=np.float64)
        neg = len(labels) - pos
        return (ranks[labels > 0].sum() - pos * (pos + 1) / 2) / max(pos * neg, 1.0)


def main():
    torch.manual_seed(9)
    write_logs()
    loader = DataLoader(ImpressionLog(), batch_size=None, num_workers=1)
    model = ClickNet()
    opt = torch.optim.Adagrad(model.parameters(), lr=0.02)
    loss_fn = nn.BCEWithLogitsLoss()
    for epoch in range(EPOCHS):
        tic = time.time()
        meter = RunningAUC()
        for step, (cats, dense, click) in enumerate(loader, 1):
            logits = model(cats, dense)
            loss = loss_fn(logits, click)
            opt.zero_grad()
            loss.backward()
            opt.step()
            meter.update(logits.detach().sigmoid(), click)
            auc = meter.compute()
            if step % PRINT_EVERY == 0:
                print(f"  step {step} loss {loss.item():.4f} auc {auc:.4f}", flush=True)
        print(f"epoch {epoch} auc {auc:.4f} {time.time() - tic:.1f}s", flush=True)


if __name__ == "__main__":
    main()
