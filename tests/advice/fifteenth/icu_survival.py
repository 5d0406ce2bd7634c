"""Survival of intensive care patients from the first 48 hours of vital signs."""
import os

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 6))
PATIENTS, HOURS, VITALS = 3600, 48, 10


def simulate_cohort(seed=17):
    rng = np.random.default_rng(seed)
    severity = rng.normal(0, 1, PATIENTS).astype(np.float32)
    level = rng.normal(0, 1, (PATIENTS, 1, VITALS)) + severity[:, None, None] * np.linspace(-0.5, 0.5, VITALS)
    walk = rng.normal(0, 0.15, (PATIENTS, HOURS, VITALS)).cumsum(1)
    vitals = (level + walk).astype(np.float32)
    vitals[rng.random(vitals.shape) < 0.2] = np.nan
    death = rng.exponential(np.exp(-severity) * 20)
    leave = rng.exponential(30, PATIENTS)
    days = np.minimum(death, leave).astype(np.float32)
    return vitals, days, (death <= leave).astype(np.float32)


class VitalSigns(Dataset):
    def __init__(self, vitals, days, died):
        missing = np.isnan(vitals)
        mean, std = np.nanmean(vitals, (0, 1)), np.nanstd(vitals, (0, 1))
        filled = np.where(missing, 0.0, (vitals - mean) / std).astype(np.float32)
        self.series = torch.from_numpy(np.concatenate([filled, missing.astype(np.float32)], 2))
        self.days = torch.from_numpy(days)
        self.died = torch.from_numpy(died)

    def __len__(self):
        return len(self.days)

    def __getitem__(self, index):
        return self.series[index], self.days[index], self.died[index]


class RiskModel(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.encoder = nn.GRU(VITALS * 2, hidden, batch_first=True)
        self.head = nn.Sequential(nn.Linear(hidden, 24), nn.ReLU(), nn.Dropout(0.1), nn.Linear(24, 1))

    def forward(self, series):
        _, state = self.encoder(series)
        return self.head(state[-1]).squeeze(1)


def cox_loss(risk, days, died):
    order = days.argsort(descending=True)
    risk, died = risk[order], died[order]
    return -((risk - risk.logcumsumexp(0)) * died).sum() / died.sum().clamp(min=1)


class ConcordanceIndex:
    """Harrell's C over everything seen in the current pass."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.risk, self.days, self.died = [], [], []

    def update(self, risk, days, died):
        self.risk.append(risk.detach())
        self.days.append(days)
        self.died.append(died)

    def compute(self):
        risk, days, died = torch.cat(self.risk), torch.cat(self.days), torch.cat(self.died)
        comparable = (days[:, None] < days[None, :]) & (died[:, None] > 0)
        concordant = (risk[:, None] > risk[None, :]) & comparable
        tied = (risk[:, None] == risk[None, :]) & comparable
        pairs = comparable.sum().clamp(min=1)
        return ((concordant.sum() + 0.5 * tied.sum()) / pairs).item()


def main():
    torch.manual_seed(0)
    cohort = VitalSigns(*simulate_cohort())
    loader = DataLoader(cohort, batch_size=32, shuffle=True, drop_last=True)
    model = RiskModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-3)
    c_index = ConcordanceIndex()
    for epoch in range(EPOCHS):
        model.train()
        c_index.reset()
        mean_loss = 0.0
        for step, (series, days, died) in enumerate(loader, 1):
            risk = model(series)
            loss = cox_loss(risk, days, died)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            mean_loss += (loss.item() - mean_loss) / step
            c_index.update(risk, days, died)
            summary = {"loss": mean_loss, "c_index": c_index.compute()}
        print(f"epoch {epoch}: " + ", ".join(f"{k} {v:.4f}" for k, v in summary.items()), flush=True)


if __name__ == "__main__":
    main()
