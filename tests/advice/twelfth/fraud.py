"""Card-fraud classifier over each card's most recent transactions."""
import argparse
import os
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler

HISTORY = 24
FEATURES = 12


def make_ledger(n_rows, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n_rows, FEATURES), dtype=np.float32)
    risk = x[:, 0] * 0.8 + x[:, 3] * x[:, 5] + 0.5 * rng.standard_normal(n_rows)
    y = (risk > np.quantile(risk, 0.985)).astype(np.int64)
    return x, y


class Ledger(Dataset):
    def __init__(self, x, y):
        self.x = x
        self.y = y

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        lo = max(0, i - HISTORY + 1)
        window = self.x[lo:i + 1]
        out = np.zeros((HISTORY, FEATURES), dtype=np.float32)
        out[HISTORY - len(window):] = window
        return torch.from_numpy(out), int(self.y[i])


class BalancedSampler(Sampler):
    """Gives frauds and regular transactions the same chance to be drawn."""

    def __init__(self, labels, n_draws, seed=0):
        counts = np.bincount(labels, minlength=2)
        weight = 1.0 / counts[labels]
        self.prob = weight / weight.sum()
        self.n_draws = n_draws
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return self.n_draws

    def __iter__(self):
        n = len(self.prob)
        for _ in range(self.n_draws):
            yield int(self.rng.choice(n, p=self.prob))


class CardNet(nn.Module):
    def __init__(self, hidden=96):
        super().__init__()
        self.gru = nn.GRU(FEATURES, hidden, batch_first=True)
        self.head = nn.Sequential(nn.Linear(hidden, 64), nn.ReLU(), nn.Linear(64, 2))

    def forward(self, x):
        _, h = self.gru(x)
        return self.head(h[-1])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=int(os.environ.get("EPOCHS", 7)))
    p.add_argument("--batch-size", type=int, default=128)
    p.add_argument("--rows", type=int, default=150_000)
    p.add_argument("--draws", type=int, default=2560)
    p.add_argument("--lr", type=float, default=1e-3)
    args = p.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(0)
    x, y = make_ledger(args.rows)
    sampler = BalancedSampler(y, args.draws)
    loader = DataLoader(Ledger(x, y), batch_size=args.batch_size, sampler=sampler,
                        num_workers=2, persistent_workers=True, drop_last=True)

    model = CardNet()
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        t0 = time.time()
        total = hits = seen = 0
        for xb, yb in loader:
            logits = model(xb)
            loss = loss_fn(logits, yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(yb)
            hits += (logits.argmax(1) == yb).sum().item()
            seen += len(yb)
        print(f"epoch {epoch + 1}: loss {total / seen:.4f} acc {hits / seen:.3f} "
              f"({time.time() - t0:.1f}s)")


if __name__ == "__main__":
    main()
