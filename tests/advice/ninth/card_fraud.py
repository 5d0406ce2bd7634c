"""Card-fraud scorer: wide MLP on transactions, drawn by risk weight."""
from __future__ import annotations

import os
from dataclasses import dataclass
from time import monotonic

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Sampler


torch.set_num_threads(1)


@dataclass(frozen=True)
class Config:
    rows: int = 1_600_000
    features: int = 16
    batch: int = 256
    steps: int = 80
    epochs: int = int(os.environ.get("EPOCHS", 10))
    seed: int = 2024
    fraud_share: float = 0.3
    lr: float = 1e-3


class Transactions(Dataset):
    def __init__(self, cfg: Config) -> None:
        g = torch.Generator().manual_seed(cfg.seed)
        self.x = torch.randn(cfg.rows, cfg.features, generator=g)
        score = self.x[:, :4].sum(1) + 0.5 * torch.randn(cfg.rows, generator=g)
        self.y = (score > 4.2).float()
        self.amount = torch.rand(cfg.rows, generator=g) * 500

    def __len__(self) -> int:
        return self.x.shape[0]

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor, Tensor]:
        return self.x[i], self.y[i], self.amount[i]

    def __getitems__(self, rows: list[int]) -> tuple[Tensor, Tensor, Tensor]:
        r = torch.as_tensor(rows)
        return self.x[r], self.y[r], self.amount[r]


class RiskBatches(Sampler[list[int]]):
    """Batches with about `fraud_share` frauds; large amounts are drawn more often."""

    def __init__(self, labels: np.ndarray, amounts: np.ndarray, cfg: Config) -> None:
        self.cfg = cfg
        self.rng = np.random.default_rng(cfg.seed)
        w = np.sqrt(amounts.astype(np.float64) + 1.0)
        fraud = labels > 0.5
        w[fraud] *= cfg.fraud_share / w[fraud].sum()
        w[~fraud] *= (1.0 - cfg.fraud_share) / w[~fraud].sum()
        self.p = w / w.sum()

    def __len__(self) -> int:
        return self.cfg.steps

    def __iter__(self):
        for _ in range(self.cfg.steps):
            rows = self.rng.choice(self.p.size, size=self.cfg.batch, p=self.p)
            yield rows.tolist()


class Scorer(nn.Module):
    def __init__(self, cfg: Config) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(cfg.features + 1, 128), nn.GELU(), nn.LayerNorm(128),
            nn.Linear(128, 128), nn.GELU(), nn.LayerNorm(128),
            nn.Linear(128, 1),
        )

    def forward(self, x: Tensor, amount: Tensor) -> Tensor:
        return self.net(torch.cat([x, amount.log1p().unsqueeze(1)], 1)).squeeze(1)


def keep(batch):
    return batch


def run_epoch(model: Scorer, loader: DataLoader, opt: torch.optim.Optimizer) -> tuple[float, float]:
    loss_sum = torch.zeros(())
    fraud = torch.zeros(())
    for x, y, amount in loader:
        loss = nn.functional.binary_cross_entropy_with_logits(model(x, amount), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        loss_sum += loss.detach()
        fraud += y.mean()
    return (loss_sum / len(loader)).item(), (fraud / len(loader)).item()


def main() -> None:
    cfg = Config()
    torch.manual_seed(cfg.seed)
    data = Transactions(cfg)
    sampler = RiskBatches(data.y.numpy(), data.amount.numpy(), cfg)
    loader = DataLoader(data, batch_sampler=sampler, collate_fn=keep, num_workers=1, persistent_workers=True)
    model = Scorer(cfg)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    for epoch in range(1, cfg.epochs + 1):
        start = monotonic()
        loss, share = run_epoch(model, loader, opt)
        print(f"epoch={epoch} loss={loss:.4f} fraud_share={share:.2f} seconds={monotonic() - start:.2f}")


if __name__ == "__main__":
    main()
