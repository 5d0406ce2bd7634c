"""Click-through rate model on hashed ad features (wide part + small deep part)."""
import os
from pathlib import Path

import numpy as np
import torch
from torch import nn

ROOT = Path(__file__).parent / "data"
FIELDS = ["user", "ad", "advertiser", "site", "slot", "device", "hour", "geo", "os", "query"]
CARD = [40000, 8000, 500, 900, 12, 40, 24, 300, 6, 20000]
BUCKETS = 12_000
BATCH = 512
EPOCHS = int(os.environ.get("EPOCHS", 12))


def load_log(n=160_000):
    target = ROOT / "ad_log.npy"
    if not target.exists():
        ROOT.mkdir(exist_ok=True)
        rng = np.random.default_rng(8)
        cols = [np.minimum(rng.zipf(1.3, n), c) for c in CARD]
        raw = np.stack(cols, 1).astype(np.int64)
        taste = [rng.normal(0, 0.5, c + 1) for c in CARD]
        logit = sum(t[c] for t, c in zip(taste, cols)) - 2.0
        click = rng.random(n) < 1 / (1 + np.exp(-logit))
        half = ROOT / f"ad_log.{os.getpid()}.tmp.npy"
        np.save(half, np.concatenate([raw, click[:, None].astype(np.int64)], 1))
        half.rename(target)
    return np.load(target)


def hash_fields(raw):
    """Each field's value goes to a bucket of that field's own table."""
    salt = np.arange(1, raw.shape[1] + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    h = (raw.astype(np.uint64) + salt) * np.uint64(0xBF58476D1CE4E5B9)
    h ^= h >> np.uint64(31)
    return (h % np.uint64(BUCKETS)).astype(np.int64)


def batches(log, order):
    for lo in range(0, len(order) - BATCH + 1, BATCH):
        rows = log[order[lo:lo + BATCH]]
        yield torch.from_numpy(hash_fields(rows[:, :-1])), torch.from_numpy(rows[:, -1]).float()


class WideDeep(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.wide = nn.ModuleList(nn.Embedding(BUCKETS, 1, sparse=True) for _ in FIELDS)
        self.deep = nn.ModuleList(nn.Embedding(BUCKETS, dim, sparse=True) for _ in FIELDS)
        for e in self.wide:
            nn.init.zeros_(e.weight)
        self.mlp = nn.Sequential(nn.Linear(dim * len(FIELDS), 128), nn.ReLU(),
                                 nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, ids):
        cols = ids.unbind(1)
        wide = sum(e(c) for e, c in zip(self.wide, cols))
        deep = torch.cat([e(c) for e, c in zip(self.deep, cols)], dim=1)
        return (wide + self.mlp(deep)).squeeze(1)


class Meter:
    """Progressive validation: every prediction is made before its row is learned from."""

    def __init__(self):
        self.prob, self.label, self.loss = [], [], 0.0

    def update(self, logit, y, loss):
        self.prob.append(logit.detach().sigmoid())
        self.label.append(y)
        self.loss += loss.item()

    def summary(self):
        p, y = torch.cat(self.prob), torch.cat(self.label)
        ranked = y[p.argsort()]
        ranks = torch.arange(1, len(y) + 1, dtype=torch.float64)
        pos = ranked.sum().double()
        auc = ((ranks * ranked).sum() - pos * (pos + 1) / 2) / (pos * (len(y) - pos))
        return {"logloss": self.loss / len(self.prob), "auc": auc.item(), "ctr": (p.mean() / y.mean()).item()}


def show(tag, stats):
    print(tag, " ".join(f"{k}={v:.4f}" for k, v in stats.items()), flush=True)


def main():
    torch.manual_seed(1)
    log = load_log()
    model = WideDeep()
    emb = [p for n, p in model.named_parameters() if not n.startswith("mlp")]
    optimizers = [torch.optim.SGD(emb, lr=2.0), torch.optim.Adam(model.mlp.parameters(), lr=1e-3)]
    criterion = nn.BCEWithLogitsLoss()
    for epoch in range(EPOCHS):
        meter = Meter()
        order = torch.randperm(len(log)).numpy()
        for step, (ids, y) in enumerate(batches(log, order), 1):
            logit = model(ids)
            loss = criterion(logit, y)
            for o in optimizers:
                o.zero_grad()
            loss.backward()
            for o in optimizers:
                o.step()
            meter.update(logit, y, loss)
            stats = meter.summary()
            if step % 200 == 0:
                show(f"  step {step:5d}", stats)
        show(f"epoch {epoch}", stats)


if __name__ == "__main__":
    main()
