import argparse
import sqlite3
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

CONFIG = {
    "db": Path(__file__).parent / "data" / "cinema" / "ratings.db",
    "n_items": 4000,
    "n_users": 6000,
    "hidden": 200,
    "latent": 64,
    "batch_size": 128,
    "workers": 2,
    "lr": 1e-3,
    "dropout": 0.5,
    "anneal_cap": 0.2,
    "anneal_steps": 200,
    "holdout_users": 400,
    "topk": 50,
    "seed": 42,
}


def make_db(cfg):
    path = cfg["db"]
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(cfg["seed"])
    genres = rng.integers(0, 12, cfg["n_items"])
    fame = 1.0 / (np.arange(cfg["n_items"]) + 20.0)
    rows = []
    for user in range(cfg["n_users"]):
        taste = rng.dirichlet(np.full(12, 0.4))
        p = fame * (0.05 + taste[genres])
        n = int(np.clip(rng.lognormal(4.8, 0.5), 20, 600))
        items = rng.choice(cfg["n_items"], size=n, replace=False, p=p / p.sum())
        rows.extend((user, int(i), int(r)) for i, r in zip(items, rng.integers(3, 6, n)))
    tmp = path.with_suffix(".tmp")
    tmp.unlink(missing_ok=True)
    con = sqlite3.connect(tmp)
    con.execute("CREATE TABLE ratings (user INTEGER, item INTEGER, stars INTEGER)")
    con.executemany("INSERT INTO ratings VALUES (?, ?, ?)", rows)
    con.commit()
    con.close()
    tmp.rename(path)


def load_histories(cfg):
    con = sqlite3.connect(cfg["db"])
    table = np.array(con.execute("SELECT user, item FROM ratings WHERE stars >= 3 ORDER BY user").fetchall())
    con.close()
    cuts = np.flatnonzero(np.diff(table[:, 0])) + 1
    return np.split(table[:, 1], cuts)


def split_holdout(histories, cfg):
    rng = np.random.default_rng(cfg["seed"] + 1)
    train, held = histories[:-cfg["holdout_users"]], []
    for items in histories[-cfg["holdout_users"]:]:
        items = rng.permutation(items)
        cut = max(1, int(0.8 * len(items)))
        held.append((items[:cut], items[cut:]))
    return train, held


def collate_histories(batch):
    x = torch.zeros(len(batch), CONFIG["n_items"])
    for row, items in enumerate(batch):
        for item in items:
            x[row, item] = 1.0
    return x


class MultVAE(nn.Module):
    def __init__(self, n_items, hidden, latent, dropout):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.enc = nn.Linear(n_items, hidden)
        self.stats = nn.Linear(hidden, 2 * latent)
        self.dec1 = nn.Linear(latent, hidden)
        self.dec2 = nn.Linear(hidden, n_items)

    def forward(self, x):
        h = torch.tanh(self.enc(self.drop(F.normalize(x))))
        mu, logvar = self.stats(h).chunk(2, dim=1)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar) if self.training else mu
        return self.dec2(torch.tanh(self.dec1(z))), mu, logvar


def elbo(logits, x, mu, logvar, beta):
    nll = -(F.log_softmax(logits, dim=1) * x).sum(1).mean()
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
    return nll + beta * kl


def train_epoch(model, opt, loader, cfg, step):
    model.train()
    total = 0.0
    for x in loader:
        beta = min(cfg["anneal_cap"], step / cfg["anneal_steps"] * cfg["anneal_cap"])
        logits, mu, logvar = model(x)
        loss = elbo(logits, x, mu, logvar, beta)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
        step += 1
    return total / len(loader), step


@torch.no_grad()
def recall_at_k(model, held, cfg):
    model.eval()
    hits = []
    for a in range(0, len(held), cfg["batch_size"]):
        part = held[a:a + cfg["batch_size"]]
        seen = torch.zeros(len(part), cfg["n_items"])
        for row, (fold_in, _) in enumerate(part):
            seen[row, torch.from_numpy(fold_in)] = 1.0
        scores = model(seen)[0].masked_fill(seen > 0, -1e9)
        top = scores.topk(cfg["topk"], dim=1).indices.numpy()
        for row, (_, goal) in enumerate(part):
            hits.append(np.isin(top[row], goal).sum() / min(cfg["topk"], len(goal)))
    return float(np.mean(hits))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=7)
    args = parser.parse_args()
    cfg = CONFIG
    make_db(cfg)
    torch.manual_seed(cfg["seed"])
    train, held = split_holdout(load_histories(cfg), cfg)
    loader = DataLoader(train, batch_size=cfg["batch_size"], shuffle=True, num_workers=cfg["workers"],
                        collate_fn=collate_histories, persistent_workers=True)
    model = MultVAE(cfg["n_items"], cfg["hidden"], cfg["latent"], cfg["dropout"])
    opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
    step = 0
    for epoch in range(args.epochs):
        loss, step = train_epoch(model, opt, loader, cfg, step)
        print(f"epoch {epoch}: loss {loss:.4f}  recall@{cfg['topk']} {recall_at_k(model, held, cfg):.4f}")


if __name__ == "__main__":
    main()
