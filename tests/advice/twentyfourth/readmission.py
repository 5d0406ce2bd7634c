"""30-day hospital readmission risk from discharge records (embeddings + MLP)."""
import argparse
import os
import time

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, SequentialSampler
from torchmetrics.classification import BinaryAUROC
from tqdm import tqdm

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "readmission")
RECORDS = os.path.join(ROOT, "discharges.parquet")
NUMERIC = ["age", "length_of_stay", "n_medications", "n_lab_tests", "n_prior_visits", "charlson"]
CATEGORICAL = {"ward": 24, "diagnosis_group": 180, "discharge_to": 9, "payer": 12}


def make_data():
    if os.path.exists(RECORDS):
        return
    os.makedirs(ROOT, exist_ok=True)
    rng = np.random.default_rng(99)
    n = 90_000
    columns = {
        "age": rng.normal(63, 16, n).clip(18, 99),
        "length_of_stay": rng.gamma(2.0, 2.5, n),
        "n_medications": rng.poisson(9, n),
        "n_lab_tests": rng.poisson(30, n),
        "n_prior_visits": rng.poisson(0.8, n),
        "charlson": rng.poisson(1.6, n),
    }
    for name, size in CATEGORICAL.items():
        columns[name] = rng.integers(0, size, n)
    effect = rng.normal(0, 0.5, CATEGORICAL["diagnosis_group"])
    risk = (-2.6 + 0.015 * (columns["age"] - 60) + 0.45 * columns["n_prior_visits"]
            + 0.18 * columns["charlson"] + effect[columns["diagnosis_group"]])
    columns["readmitted"] = (rng.random(n) < 1 / (1 + np.exp(-risk))).astype(np.int64)
    pd.DataFrame(columns).to_parquet(RECORDS + ".tmp")
    os.replace(RECORDS + ".tmp", RECORDS)


class Discharges(Dataset):
    def __init__(self, frame, mean, std):
        self.numeric = torch.from_numpy(((frame[NUMERIC] - mean) / std).to_numpy(dtype=np.float32, copy=True))
        self.codes = torch.from_numpy(frame[list(CATEGORICAL)].to_numpy(dtype=np.int64, copy=True))
        self.target = torch.from_numpy(frame["readmitted"].to_numpy(dtype=np.float32, copy=True))

    def __len__(self):
        return len(self.target)

    def __getitem__(self, rows):
        return self.numeric[rows], self.codes[rows], self.target[rows]


def make_loader(dataset, batch_size, shuffle):
    order = RandomSampler(dataset) if shuffle else SequentialSampler(dataset)
    return DataLoader(dataset, sampler=BatchSampler(order, batch_size, drop_last=False), batch_size=None)


class RiskModel(nn.Module):
    def __init__(self, dim=8, width=96):
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Embedding(size, dim) for size in CATEGORICAL.values())
        self.mlp = nn.Sequential(
            nn.Linear(len(NUMERIC) + dim * len(CATEGORICAL), width), nn.ReLU(), nn.Dropout(0.1),
            nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(width, 1),
        )

    def forward(self, numeric, codes):
        parts = [embedding(codes[:, k]) for k, embedding in enumerate(self.embeddings)]
        return self.mlp(torch.cat([numeric, *parts], dim=1)).squeeze(1)


@torch.no_grad()
def validate(model, loader):
    model.eval()
    auroc = BinaryAUROC()
    for numeric, codes, target in loader:
        auroc.update(model(numeric, codes), target.long())
    return auroc.compute().item()


def train_epoch(model, loader, optimizer, auroc, epoch):
    model.train()
    auroc.reset()
    total = 0.0
    progress = tqdm(loader, desc=f"epoch {epoch}", leave=False, disable=None)
    for numeric, codes, target in progress:
        logits = model(numeric, codes)
        loss = F.binary_cross_entropy_with_logits(logits, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(target)
        auroc.update(logits.detach(), target.long())
        progress.set_postfix(loss=loss.item(), auroc=auroc.compute().item())
    return total / len(loader.dataset), auroc.compute().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--make", action="store_true")
    args = parser.parse_args()
    make_data()
    if args.make:
        return

    torch.manual_seed(1)
    frame = pd.read_parquet(RECORDS)
    cut = int(0.85 * len(frame))
    train_frame, valid_frame = frame.iloc[:cut], frame.iloc[cut:]
    mean, std = train_frame[NUMERIC].mean(), train_frame[NUMERIC].std()
    train_loader = make_loader(Discharges(train_frame, mean, std), args.batch_size, shuffle=True)
    valid_loader = make_loader(Discharges(valid_frame, mean, std), 2048, shuffle=False)

    model = RiskModel()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=1e-5)
    train_auroc = BinaryAUROC()
    for epoch in range(1, args.epochs + 1):
        start = time.time()
        loss, auc = train_epoch(model, train_loader, optimizer, train_auroc, epoch)
        valid_auc = validate(model, valid_loader)
        print(f"epoch {epoch}: loss {loss:.4f} train auroc {auc:.4f} valid auroc {valid_auc:.4f} "
              f"({time.time() - start:.1f}s)")


if __name__ == "__main__":
    main()
