"""Click-through-rate model on a log of ad impressions stored as .npy columns."""

import collections
import os
import tempfile

import numpy as np
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

CONFIG = {
    "rows": 100_000,
    "fields": [2000, 500, 300, 50, 24, 7],
    "dense": 10,
    "batch": 256,
    "dim": 12,
    "lr": 1e-3,
    "epochs": int(os.environ.get("EPOCHS", "5")),
}


def write_columns(folder, cfg):
    rng = np.random.default_rng(21)
    n = cfg["rows"]
    cat = np.stack([rng.zipf(1.3, n) % size for size in cfg["fields"]], 1).astype(np.int32)
    dense = rng.lognormal(size=(n, cfg["dense"])).astype(np.float32)
    score = 0.4 * (cat[:, 1] % 7) - 0.5 * (cat[:, 3] % 5) + dense[:, 0] - dense[:, 1] - 1.5
    clicks = (rng.random(n) < 1 / (1 + np.exp(-score))).astype(np.float32)
    for name, column in (("cat", cat), ("dense", dense), ("click", clicks)):
        np.save(os.path.join(folder, name + ".npy"), column)


class Impressions(Dataset):
    """Indexed with a whole list of row numbers at a time."""

    def __init__(self, folder):
        self.cat, self.dense, self.click = (
            np.load(os.path.join(folder, f"{name}.npy"), mmap_mode="r") for name in ("cat", "dense", "click")
        )

    def __len__(self):
        return len(self.click)

    def __getitem__(self, rows):
        rows = np.sort(np.asarray(rows))
        return (
            torch.from_numpy(self.cat[rows].astype(np.int64)),
            torch.from_numpy(np.log1p(self.dense[rows])),
            torch.from_numpy(self.click[rows]),
        )


class WideDeep(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.register_buffer("shift", torch.tensor([0] + list(np.cumsum(cfg["fields"])[:-1])))
        total = sum(cfg["fields"])
        self.wide = nn.EmbeddingBag(total, 1, mode="sum")
        self.deep = nn.Embedding(total, cfg["dim"])
        width = len(cfg["fields"]) * cfg["dim"] + cfg["dense"]
        self.mlp = nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, cat, dense):
        cat = cat + self.shift
        deep = torch.cat([self.deep(cat).flatten(1), dense], 1)
        return (self.wide(cat) + self.mlp(deep)).squeeze(1)


def roc_auc(scores, labels):
    order = np.argsort(scores, kind="mergesort")
    ranks = np.empty(len(scores))
    ranks[order] = np.arange(1, len(scores) + 1)
    positive = labels > 0.5
    p, n = positive.sum(), (~positive).sum()
    if p == 0 or n == 0:
        return 0.5
    return (ranks[positive].sum() - p * (p + 1) / 2) / (p * n)


def train(cfg, folder):
    data = Impressions(folder)
    batches = BatchSampler(RandomSampler(data), cfg["batch"], drop_last=False)
    loader = DataLoader(data, sampler=batches, batch_size=None)
    model = WideDeep(cfg)
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
    criterion = nn.BCEWithLogitsLoss()
    best = 0.0
    for epoch in range(cfg["epochs"]):
        scores, labels, losses = [], [], collections.deque(maxlen=50)
        for step, (cat, dense, click) in enumerate(loader):
            logits = model(cat, dense)
            loss = criterion(logits, click)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            scores.append(torch.sigmoid(logits).detach().numpy())
            labels.append(click.numpy())
            auc = roc_auc(np.concatenate(scores), np.concatenate(labels))
        best = max(best, auc)
        print(f"epoch {epoch + 1:02d} loss {np.mean(losses):.4f} auc {auc:.4f} best {best:.4f}", flush=True)


if __name__ == "__main__":
    torch.manual_seed(21)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as tmp:
        write_columns(tmp, CONFIG)
        train(CONFIG, tmp)
