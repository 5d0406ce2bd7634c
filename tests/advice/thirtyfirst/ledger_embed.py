# %% [markdown]
# # Account embeddings from card transactions
# Each account should land in its own corner of the embedding space; unusual transactions then lie far from the
# account's centre. Batches hold P accounts with K transactions each, for the batch-hard triplet loss.

# %%
import argparse
import os
import time

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

FEATURES = ["amount", "hour", "merchant_risk", "distance", "gap", "balance", "online", "abroad"]
ACCOUNTS = 2500
ROWS = 220_000


# %% The extract: one CSV, as the warehouse writes it
def make_data(folder):
    path = os.path.join(folder, "transactions.csv")
    if os.path.exists(path):
        return path
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(21)
    account = rng.integers(0, ACCOUNTS, ROWS)
    centre = rng.normal(size=(ACCOUNTS, len(FEATURES)))
    values = centre[account] + 0.6 * rng.normal(size=(ROWS, len(FEATURES)))
    frame = pd.DataFrame(values.round(3), columns=FEATURES)
    frame.insert(0, "account", 400_000 + 7 * account)
    frame.to_csv(path, index=False)
    return path


def load_table(path):
    frame = pd.read_csv(path, dtype={name: np.float32 for name in FEATURES})
    values = frame[FEATURES].to_numpy(np.float32)
    values = (values - values.mean(0)) / values.std(0)
    return torch.from_numpy(np.ascontiguousarray(values)), frame["account"].to_numpy(copy=True)


# %% Rows come out of one tensor, a whole batch at a time
class Transactions(Dataset):
    def __init__(self, values, account):
        self.values = values
        self.account = torch.from_numpy(account)

    def __len__(self):
        return len(self.values)

    def __getitems__(self, rows):
        rows = torch.as_tensor(rows)
        return self.values[rows], self.account[rows]


class AccountBatches:
    """P accounts x K transactions per batch."""

    def __init__(self, account, per_batch, per_account, batches, seed):
        self.account = account
        self.known = np.unique(account)
        self.per_batch = per_batch
        self.per_account = per_account
        self.batches = batches
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return self.batches

    def rows_of(self, key):
        return np.flatnonzero(self.account == key)

    def __iter__(self):
        for _ in range(self.batches):
            keys = self.rng.choice(self.known, self.per_batch, replace=False)
            rows = [self.rng.choice(self.rows_of(key), self.per_account) for key in keys]
            yield np.concatenate(rows)


# %% Model and loss
class Embedder(nn.Module):
    def __init__(self, inputs, width=96, outputs=32):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(inputs, width), nn.LayerNorm(width), nn.SiLU(),
            nn.Linear(width, width), nn.LayerNorm(width), nn.SiLU(),
            nn.Linear(width, outputs),
        )

    def forward(self, x):
        return F.normalize(self.layers(x), dim=1)


def batch_hard(embedding, account, margin=0.3):
    distance = (2 - 2 * embedding @ embedding.T).clamp(min=1e-6).sqrt()
    same = account[:, None] == account[None, :]
    hardest_same = distance.masked_fill(~same, 0).amax(1)
    nearest_other = distance.masked_fill(same, 4).amin(1)
    return F.softplus((hardest_same - nearest_other + margin) * 4).mean() / 4


# %% How often is a transaction nearest to the centre of its own account?
@torch.no_grad()
def recall(model, values, account, accounts=200):
    model.eval()
    labels = torch.from_numpy(account)
    keep = torch.from_numpy(np.unique(account)[:accounts])
    chosen = torch.isin(labels, keep)
    embedding = model(values[chosen])
    group = torch.searchsorted(keep, labels[chosen])
    centres = torch.zeros(accounts, embedding.shape[1]).index_add_(0, group, embedding)
    nearest = (embedding @ F.normalize(centres, dim=1).T).argmax(1)
    return (nearest == group).float().mean().item()


# %% Run
def run(opts):
    torch.manual_seed(opts.seed)
    torch.set_num_threads(1)  # the network is small
    values, account = load_table(make_data(opts.data))
    print(f"{len(values)} transactions of {len(np.unique(account))} accounts")
    batches = AccountBatches(account, opts.accounts, opts.transactions, opts.batches, opts.seed)
    loader = DataLoader(Transactions(values, account), batch_sampler=batches, collate_fn=lambda pair: pair)
    model = Embedder(len(FEATURES))
    optimizer = torch.optim.Adam(model.parameters(), lr=opts.lr)
    for epoch in range(opts.epochs):
        start, total = time.time(), torch.zeros(())
        model.train()
        for x, key in loader:
            loss = batch_hard(model(x), key)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()
        print(f"epoch {epoch + 1}  loss {total.item() / len(batches):.4f}  {time.time() - start:.1f} s")
    print(f"recall@1 {recall(model, values, account):.4f}")
    torch.save(model.state_dict(), os.path.join(opts.data, "embedder.pt"))


# %%
if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="data/ledger_embed")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batches", type=int, default=220, help="batches in an epoch")
    parser.add_argument("--accounts", type=int, default=128)
    parser.add_argument("--transactions", type=int, default=2)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=1)
    run(parser.parse_args())
