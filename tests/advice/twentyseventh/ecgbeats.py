"""Multi-label rhythm tags from two-lead ECG snippets."""
import argparse
import csv
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

DATA = Path(__file__).parent / "data" / "ecgbeats"
N_TRAIN, N_VAL, LEADS, LENGTH, LABELS = 8000, 1000, 2, 256, 24


def prepare(root):
    root.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(21)
    t = np.arange(LENGTH) / 128
    for split, n in (("train", N_TRAIN), ("val", N_VAL)):
        y = (rng.random((n, LABELS)) < np.array([0.4, 0.2, 0.15, 0.1, 0.3, 0.05] + 18 * [0.1])).astype(np.int64)
        x = np.lib.format.open_memmap(root / f"{split}_x.npy", "w+", np.int16, (n, LEADS, LENGTH))
        for i in range(n):
            rate = 1.2 + 0.8 * y[i, 0] + rng.normal(0, 0.1)
            phase = rng.random()
            beat = ((t * rate + phase + y[i, 1] * 0.1 * rng.normal(size=LENGTH).cumsum() / 8) % 1) - 0.5
            qrs = np.exp(-(beat / (0.03 + 0.03 * y[i, 2])) ** 2)
            twave = (1 - 2 * y[i, 3]) * 0.3 * np.exp(-((beat - 0.25) / 0.08) ** 2)
            drift = 0.3 * y[i, 4] * np.sin(2 * np.pi * 0.4 * t + phase)
            flutter = 0.15 * y[i, 5] * np.sin(2 * np.pi * 5 * t)
            other = sum(0.12 * y[i, k] * np.sin(2 * np.pi * (k + 3) * t + phase) for k in range(6, LABELS))
            sig = qrs + twave + drift + flutter + other
            both = np.stack([sig, 0.6 * sig - 0.1]) + rng.normal(0, 0.25, (LEADS, LENGTH))
            x[i] = np.clip(both * 2000, -32000, 32000)
        x.flush()
        np.save(root / f"{split}_y.npy", y)


class Snippets(Dataset):
    def __init__(self, root, split):
        self.x = np.load(root / f"{split}_x.npy", mmap_mode="r")
        self.y = torch.from_numpy(np.load(root / f"{split}_y.npy")).long()

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return torch.from_numpy(self.x[i].astype(np.float32)) / 2000, self.y[i]


class RankingMetrics:
    """Macro AUROC, average precision and best F1 of everything seen since the last reset."""

    def __init__(self, prefix):
        self.prefix = prefix
        self.reset()

    def reset(self):
        self.scores, self.targets = [], []

    def update(self, scores, targets):
        self.scores.append(scores)
        self.targets.append(targets)

    def compute(self):
        scores, targets = torch.cat(self.scores), torch.cat(self.targets).bool()
        hit = targets.gather(0, scores.argsort(0, descending=True)).double()
        tp, n = hit.cumsum(0), len(hit)
        pos = hit.sum(0).clamp(min=1)
        rank = torch.arange(1, n + 1, dtype=torch.float64)[:, None]
        ap = (hit * tp / rank).sum(0) / pos
        auroc = ((1 - hit) * tp).sum(0) / (pos * (n - pos).clamp(min=1))
        return {self.prefix + "auroc": auroc.mean(), self.prefix + "ap": ap.mean(),
                self.prefix + "f1": (2 * tp / (rank + pos)).amax(0).mean()}


class Residual(nn.Module):
    def __init__(self, c, d):
        super().__init__()
        self.f = nn.Sequential(nn.Conv1d(c, c, 5, padding=2 * d, dilation=d), nn.BatchNorm1d(c), nn.ReLU(),
                               nn.Conv1d(c, c, 1))

    def forward(self, x):
        return torch.relu(x + self.f(x))


class RhythmModule(nn.Module):
    def __init__(self, lr=2e-3):
        super().__init__()
        self.lr = lr
        self.net = nn.Sequential(
            nn.Conv1d(LEADS, 20, 7, stride=4, padding=3), nn.BatchNorm1d(20), nn.ReLU(),
            Residual(20, 2), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(20, LABELS))
        self.train_metrics = RankingMetrics("train/")
        self.val_metrics = RankingMetrics("val/")
        self.criterion = nn.BCEWithLogitsLoss()

    def training_step(self, batch):
        x, y = batch
        logits = self.net(x)
        loss = self.criterion(logits, y.float())
        self.train_metrics.update(logits.detach().sigmoid(), y)
        return loss

    def validation_step(self, batch):
        x, y = batch
        self.val_metrics.update(self.net(x).sigmoid(), y)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), self.lr)


class CSVLogger:
    def __init__(self, path):
        self.file = open(path, "w", newline="")
        self.writer = csv.writer(self.file)
        self.writer.writerow(["step", "name", "value"])

    def log(self, step, values):
        for k, v in values.items():
            self.writer.writerow([step, k, f"{float(v):.5f}"])


class Runner:
    def __init__(self, epochs, logger):
        self.epochs, self.logger, self.global_step = epochs, logger, 0

    def fit(self, module, train_loader, val_loader):
        optimizer = module.configure_optimizers()
        for epoch in range(self.epochs):
            module.train()
            total = 0.0
            for batch in train_loader:
                loss = module.training_step(batch)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item()
                self.global_step += 1
                self.logger.log(self.global_step, {"train/loss": loss.item(), **module.train_metrics.compute()})
            train = module.train_metrics.compute()
            val = self.validate(module, val_loader)
            self.logger.log(self.global_step, val)
            print(f"epoch {epoch} loss {total / len(train_loader):.5f} train_auroc {train['train/auroc']:.4f} "
                  f"val_auroc {val['val/auroc']:.4f} val_ap {val['val/ap']:.4f}", flush=True)
            module.train_metrics.reset()

    @torch.no_grad()
    def validate(self, module, loader):
        module.eval()
        for batch in loader:
            module.validation_step(batch)
        out = module.val_metrics.compute()
        module.val_metrics.reset()
        return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=32)
    args = parser.parse_args()
    if not (DATA / "val_y.npy").exists():
        prepare(DATA)
    torch.manual_seed(7)
    train = DataLoader(Snippets(DATA, "train"), args.batch_size, shuffle=True, drop_last=True)
    val = DataLoader(Snippets(DATA, "val"), 200)
    Runner(args.epochs, CSVLogger(DATA / "metrics.csv")).fit(RhythmModule(), train, val)


if __name__ == "__main__":
    main()
