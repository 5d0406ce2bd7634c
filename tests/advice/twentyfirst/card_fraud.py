# Card fraud scoring: embeddings + MLP on transaction tables, AUC as the model metric.
import os
import time

import numpy as np
import torch
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "data", "card_fraud")
N, N_NUM = 160_000, 40
CARDS = (5000, 800, 120, 24, 7)
BATCH = 512
EPOCHS = int(os.environ.get("EPOCHS", 8))
LR = 1e-3


def generate():
    path = os.path.join(ROOT, "transactions.npz")
    if os.path.exists(path):
        return path
    os.makedirs(ROOT, exist_ok=True)
    rng = np.random.default_rng(42)
    num = rng.standard_normal((N, N_NUM), dtype=np.float32)
    cat = np.stack([rng.integers(0, c, N) for c in CARDS], 1).astype(np.int32)
    w = rng.standard_normal(N_NUM) * 0.4
    risk = num @ w + (cat[:, 1] % 17 == 0) * 1.5 + (cat[:, 3] > 20) * 0.8 - 3.2
    label = (rng.random(N) < 1 / (1 + np.exp(-risk))).astype(np.float32)
    np.savez(path, num=num, cat=cat, label=label)
    return path


class FraudNet(nn.Module):
    def __init__(self, dim=16, width=160):
        super().__init__()
        self.emb = nn.ModuleList(nn.Embedding(c, dim) for c in CARDS)
        d = dim * len(CARDS) + N_NUM
        self.mlp = nn.Sequential(
            nn.Linear(d, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.1),
            nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.1),
            nn.Linear(width, 1),
        )

    def forward(self, num, cat):
        e = [m(cat[:, i]) for i, m in enumerate(self.emb)]
        return self.mlp(torch.cat([num, *e], 1)).squeeze(1)


def roc_auc(score, label):
    """Mann-Whitney form of the ROC AUC."""
    order = np.argsort(score, kind="mergesort")
    ranks = np.empty(len(score))
    ranks[order] = np.arange(1, len(score) + 1)
    pos = label.sum()
    neg = len(label) - pos
    if pos == 0 or neg == 0:
        return 0.5
    return (ranks[label > 0.5].sum() - pos * (pos + 1) / 2) / (pos * neg)


class Meter:
    """Collects scores over the epoch and keeps the current loss / AUC at hand."""

    def __init__(self):
        self.scores, self.labels, self.losses = [], [], []
        self.auc = 0.5

    def update(self, loss, logits, y):
        self.losses.append(loss.item())
        self.scores.append(torch.sigmoid(logits.detach()).numpy())
        self.labels.append(y.numpy())
        self.auc = self.compute()

    def compute(self):
        return roc_auc(np.concatenate(self.scores), np.concatenate(self.labels))

    def line(self):
        return f"loss {np.mean(self.losses[-50:]):.4f} auc {self.auc:.4f}"


@torch.no_grad()
def evaluate(model, num, cat, label):
    model.eval()
    out = [torch.sigmoid(model(num[i:i + 4096], cat[i:i + 4096])) for i in range(0, len(num), 4096)]
    model.train()
    return roc_auc(torch.cat(out).numpy(), label.numpy())


def main():
    torch.manual_seed(42)
    with np.load(generate()) as z:
        num, cat, label = (torch.from_numpy(z[k]) for k in ("num", "cat", "label"))
    cut = int(0.85 * N)
    mean, std = num[:cut].mean(0), num[:cut].std(0)
    num = (num - mean) / std
    model = FraudNet()
    opt = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=1e-3)
    pos_weight = (1 - label[:cut]).sum() / label[:cut].sum()
    crit = nn.BCEWithLogitsLoss(pos_weight=pos_weight)

    for epoch in range(EPOCHS):
        start = time.time()
        meter = Meter()
        perm = torch.randperm(cut)
        for step, i in enumerate(range(0, cut, BATCH)):
            idx = perm[i:i + BATCH]
            y = label[idx]
            logits = model(num[idx], cat[idx])
            loss = crit(logits, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            meter.update(loss, logits, y)
            if step % 100 == 0:
                print(f"  epoch {epoch} step {step:4d} {meter.line()}", flush=True)
        val = evaluate(model, num[cut:], cat[cut:], label[cut:])
        print(f"epoch {epoch} train {meter.line()} val auc {val:.4f} in {time.time() - start:.1f}s", flush=True)


if __name__ == "__main__":
    main()
