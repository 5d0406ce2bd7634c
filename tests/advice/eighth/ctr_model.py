"""Click-through-rate model (embeddings + MLP) on a synthetic ad log."""
import os
import time
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", "4"))


@dataclass
class Config:
    n_rows: int = 40_960
    n_users: int = 20_000
    n_ads: int = 5_000
    n_sites: int = 300
    n_hours: int = 24
    n_history: int = 10
    dim: int = 16
    batch_size: int = 1024
    lr: float = 3e-3
    seed: int = 2024


CFG = Config()
CATEGORICAL = {
    "user": CFG.n_users,
    "ad": CFG.n_ads,
    "site": CFG.n_sites,
    "hour": CFG.n_hours,
    "device": 6,
    "country": 60,
}


def synth_log(cfg: Config) -> dict:
    rng = np.random.default_rng(cfg.seed)
    log = {k: rng.integers(0, n, cfg.n_rows) for k, n in CATEGORICAL.items()}
    log["bid"] = rng.gamma(2.0, 0.4, cfg.n_rows).astype(np.float32)
    log["age_days"] = rng.exponential(30, cfg.n_rows).astype(np.float32)
    log["history"] = rng.integers(0, cfg.n_ads, (cfg.n_rows, cfg.n_history))
    logit = 0.8 * np.sin(log["ad"]) + 0.5 * np.cos(log["site"]) + 0.4 * (log["bid"] - 0.8) - 1
    log["click"] = (rng.random(cfg.n_rows) < 1 / (1 + np.exp(-logit))).astype(np.float32)
    return log


class ClickLog(Dataset):
    """One row of the log per item."""

    def __init__(self, log: dict):
        self.log = log
        self.n = len(log["click"])

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i):
        row = {k: torch.as_tensor(self.log[k][i]) for k in CATEGORICAL}
        row["dense"] = torch.stack([
            torch.as_tensor(np.log1p(self.log["bid"][i])),
            torch.as_tensor(np.log1p(self.log["age_days"][i])),
        ])
        row["history"] = torch.as_tensor(self.log["history"][i])
        row["click"] = torch.as_tensor(self.log["click"][i])
        return row


class CTRNet(nn.Module):
    def __init__(self, cfg: Config):
        super().__init__()
        self.emb = nn.ModuleDict({k: nn.Embedding(n, cfg.dim) for k, n in CATEGORICAL.items()})
        self.hist = nn.EmbeddingBag(cfg.n_ads, cfg.dim, mode="mean")
        width = cfg.dim * (len(CATEGORICAL) + 1) + 2
        self.mlp = nn.Sequential(
            nn.Linear(width, 128), nn.ReLU(),
            nn.Linear(128, 64), nn.ReLU(),
            nn.Linear(64, 1),
        )

    def forward(self, batch):
        parts = [self.emb[k](batch[k]) for k in CATEGORICAL]
        parts += [self.hist(batch["history"]), batch["dense"]]
        return self.mlp(torch.cat(parts, dim=1)).squeeze(1)


def make_loader(log: dict, cfg: Config) -> DataLoader:
    return DataLoader(
        ClickLog(log),
        batch_size=cfg.batch_size,
        shuffle=True,
        num_workers=2,
        persistent_workers=True,
    )


def main():
    torch.manual_seed(CFG.seed)
    torch.set_num_threads(1)
    log = synth_log(CFG)
    loader = make_loader(log, CFG)
    model = CTRNet(CFG)
    opt = torch.optim.Adam(model.parameters(), lr=CFG.lr)
    loss_fn = nn.BCEWithLogitsLoss()

    for epoch in range(1, EPOCHS + 1):
        tic = time.perf_counter()
        total, count = 0.0, 0
        for batch in loader:
            opt.zero_grad()
            loss = loss_fn(model(batch), batch["click"])
            loss.backward()
            opt.step()
            total += loss.item() * len(batch["click"])
            count += len(batch["click"])
        print(f"epoch={epoch} logloss={total / count:.4f} "
              f"rows/s={count / (time.perf_counter() - tic):,.0f}", flush=True)


if __name__ == "__main__":
    main()
