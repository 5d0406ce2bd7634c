"""Loan default model on a wide table of bureau, account and behaviour columns."""
import os

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 6))
ROWS, VALID_ROWS = 40000, 4000
GROUPS = {"bureau": 120, "account": 100, "behaviour": 80}
COLUMNS = [f"{group}_{n:03d}" for group, size in GROUPS.items() for n in range(size)]


def synth_applications(rows, seed):
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((rows, len(COLUMNS)), dtype=np.float32)
    table[:, :40] = np.exp(table[:, :40])
    weights = np.random.default_rng(1).normal(0, 0.15, len(COLUMNS)).astype(np.float32)
    risk = np.tanh(table) @ weights - 1.0
    target = (rng.random(rows) < 1 / (1 + np.exp(-risk))).astype(np.float32)
    return table, target


class Scaler:
    def fit(self, table):
        self.mean = table.mean(0)
        self.std = table.std(0) + 1e-6
        return self

    def transform(self, table):
        return np.clip((table - self.mean) / self.std, -5, 5)


class Applications(Dataset):
    def __init__(self, table, target):
        self.table = table
        self.target = target

    def __len__(self):
        return len(self.target)

    def __getitem__(self, index):
        row = dict(zip(COLUMNS, self.table[index].tolist()))
        return row, self.target[index]


def to_inputs(row):
    return torch.stack([row[name] for name in COLUMNS], dim=1).float()


class DefaultNet(nn.Module):
    def __init__(self, inputs, width=96):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(inputs, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.1),
            nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.1),
            nn.Linear(width, 1))

    def forward(self, inputs):
        return self.layers(inputs).squeeze(1)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    total = 0.0
    for row, target in loader:
        logits = model(to_inputs(row))
        total += nn.functional.binary_cross_entropy_with_logits(logits, target, reduction="sum").item()
    return total / len(loader.dataset)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    train_table, train_target = synth_applications(ROWS, seed=10)
    valid_table, valid_target = synth_applications(VALID_ROWS, seed=11)
    scaler = Scaler().fit(train_table)
    train_set = Applications(scaler.transform(train_table), train_target)
    valid_set = Applications(scaler.transform(valid_table), valid_target)
    train_loader = DataLoader(train_set, batch_size=128, shuffle=True, drop_last=True)
    valid_loader = DataLoader(valid_set, batch_size=512)

    model = DefaultNet(len(COLUMNS))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-5)
    for epoch in range(EPOCHS):
        model.train()
        running = 0.0
        for row, target in train_loader:
            optimizer.zero_grad(set_to_none=True)
            loss = nn.functional.binary_cross_entropy_with_logits(model(to_inputs(row)), target)
            loss.backward()
            optimizer.step()
            running += loss.item()
        valid_loss = evaluate(model, valid_loader)
        print(f"epoch {epoch + 1}: train {running / len(train_loader):.4f} valid {valid_loss:.4f}", flush=True)


if __name__ == "__main__":
    main()
