#!/usr/bin/env python
"""Click-through model for grocery carousels (wide tables, factorised interactions)."""
import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import nn

FOLDER = Path(__file__).parent / "data" / "grocerec"
CARDINALITY = {"shopper": 130_000, "product": 60_000, "store": 900, "slot": 48, "category": 400}
DENSE = ["price", "discount", "recency", "basket"]


def generate(folder, n=70_000, seed=17):
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    cols, score = {}, np.full(n, -1.2)
    for name, size in CARDINALITY.items():
        ids = np.minimum((rng.pareto(1.1, n) * size / 25).astype(np.int64), size - 1)
        ids = np.where(rng.random(n) < 0.5, ids, rng.integers(0, size, n))
        cols[name] = ids.astype(np.int32)
        score += 0.7 * rng.normal(size=size)[ids]
    for name in DENSE:
        v = rng.normal(size=n).astype(np.float32)
        cols[name] = v
        score += 0.3 * v
    cols["click"] = (rng.random(n) < 1 / (1 + np.exp(-score))).astype(np.int8)
    table = pa.table(cols)
    pq.write_table(table.slice(0, 60_000), folder / "train.parquet", row_group_size=20_000)
    pq.write_table(table.slice(60_000), folder / "test.parquet", row_group_size=20_000)


def read(path):
    table = pq.read_table(path)
    ids = np.stack([table[c].to_numpy() for c in CARDINALITY], 1).astype(np.int64)
    dense = np.stack([table[c].to_numpy() for c in DENSE], 1)
    return torch.from_numpy(ids), torch.from_numpy(dense), torch.from_numpy(table["click"].to_numpy().astype(np.float32))


class FeatureTables(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(n, dim) for n in CARDINALITY.values()])
        for t in self.tables:
            nn.init.uniform_(t.weight, -0.05, 0.05)

    def forward(self, ids):
        return torch.stack([t(ids[:, k]) for k, t in enumerate(self.tables)], 1)


class ClickModel(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.features = FeatureTables(dim)
        self.bottom = nn.Sequential(nn.Linear(len(DENSE), 64), nn.ReLU(), nn.Linear(64, dim))
        k = len(CARDINALITY) + 1
        self.register_buffer("pairs", torch.triu_indices(k, k, 1), persistent=False)
        self.top = nn.Sequential(nn.Linear(k * (k - 1) // 2 + k * dim, 160), nn.ReLU(),
                                 nn.Linear(160, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, ids, dense):
        z = torch.cat([self.features(ids), self.bottom(dense).unsqueeze(1)], 1)
        inter = torch.bmm(z, z.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([z.flatten(1), inter], 1)).squeeze(1)


def auc(score, target):
    order = score.argsort()
    ranks = torch.empty_like(score)
    ranks[order] = torch.arange(1, len(score) + 1, dtype=score.dtype)
    pos = target.sum()
    neg = len(target) - pos
    return ((ranks[target > 0].double().sum() - pos * (pos + 1) / 2) / (pos * neg)).item()


@torch.inference_mode()
def test(model, data):
    model.eval()
    ids, dense, click = data
    score = torch.cat([model(i, d) for i, d in zip(ids.split(4096), dense.split(4096))])
    return nn.functional.binary_cross_entropy_with_logits(score, click).item(), auc(score, click)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--lr", type=float, default=0.005)
    opt = parser.parse_args()
    if not (FOLDER / "test.parquet").exists():
        generate(FOLDER)
    torch.manual_seed(2024)
    train, held = read(FOLDER / "train.parquet"), read(FOLDER / "test.parquet")
    model = ClickModel()
    optimizer = torch.optim.Adagrad(model.parameters(), lr=opt.lr)
    criterion = nn.BCEWithLogitsLoss()
    for epoch in range(opt.epochs):
        model.train()
        order = torch.randperm(len(train[2]))
        total = torch.zeros(())
        batches = order.split(opt.batch)[:-1]
        for index in batches:
            ids, dense, click = (t[index] for t in train)
            loss = criterion(model(ids, dense), click)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()
        logloss, area = test(model, held)
        print(f"epoch {epoch} train {total.item() / len(batches):.5f} test {logloss:.5f} auc {area:.4f}", flush=True)
    torch.save(model.state_dict(), FOLDER / "model.pt")


if __name__ == "__main__":
    main()
