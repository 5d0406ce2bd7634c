"""Next-day streamflow from a season of daily weather at each gauge."""
import os
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


@dataclass
class Settings:
    gauges: int = 12
    days: int = 1500
    season: int = 90
    hidden: int = 64
    batch: int = 64
    lr: float = 2e-3
    epochs: int = field(default_factory=lambda: int(os.environ.get("EPOCHS", "8")))
    train_windows: int = 3072
    test_windows: int = 1500


def simulate_basins(s):
    rng = np.random.default_rng(2024)
    rain = rng.gamma(0.4, 6.0, (s.gauges, s.days)).astype(np.float32)
    day = np.arange(s.days)
    temp = (10 + 12 * np.sin(2 * np.pi * day / 365) + rng.normal(0, 3, (s.gauges, s.days))).astype(np.float32)
    flow = np.zeros_like(rain)
    store = np.full(s.gauges, 20.0, dtype=np.float32)
    for d in range(s.days):
        store = np.maximum(store + rain[:, d] - 0.08 * np.maximum(temp[:, d], 0), 0)
        flow[:, d] = 0.06 * store
        store = store - flow[:, d]
    flow = (flow - flow.mean()) / flow.std()
    return np.stack([rain / 6, temp / 12, np.broadcast_to(np.sin(2 * np.pi * day / 365), rain.shape)], -1).astype(np.float32), flow


class Windows(Dataset):
    def __init__(self, weather, flow, season, count, lo, hi, seed):
        rng = np.random.default_rng(seed)
        self.gauge = rng.integers(0, len(flow), count)
        self.start = rng.integers(lo, hi - season - 1, count)
        self.weather, self.flow, self.season = weather, flow, season

    def __len__(self):
        return len(self.start)

    def __getitem__(self, i):
        g, a = self.gauge[i], self.start[i]
        return (torch.from_numpy(self.weather[g, a:a + self.season]),
                torch.tensor([self.flow[g, a + self.season]]))


class Flow(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.lstm = nn.LSTM(3, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        return self.out(self.lstm(x)[0][:, -1])


def nash_sutcliffe(model, loader):
    model.eval()
    sim, obs = [], []
    with torch.no_grad():
        for x, q in loader:
            sim.append(model(x))
            obs.append(q)
    sim, obs = torch.cat(sim), torch.cat(obs)
    return 1 - ((sim - obs) ** 2).sum().item() / ((obs - obs.mean()) ** 2).sum().item()


def main():
    s = Settings()
    torch.manual_seed(9)
    weather, flow = simulate_basins(s)
    split = int(s.days * 0.75)
    train_set = Windows(weather, flow, s.season, s.train_windows, 0, split, seed=1)
    test_set = Windows(weather, flow, s.season, s.test_windows, split, s.days, seed=2)
    train_loader = DataLoader(train_set, batch_size=s.batch, shuffle=True,
                              num_workers=2, persistent_workers=True)
    test_loader = DataLoader(test_set, num_workers=2, persistent_workers=True)

    model = Flow(s.hidden)
    opt = torch.optim.Adam(model.parameters(), lr=s.lr)
    for epoch in range(s.epochs):
        model.train()
        total = 0.0
        for x, q in train_loader:
            opt.zero_grad()
            loss = nn.functional.mse_loss(model(x), q)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            total += loss.item()
        nse = nash_sutcliffe(model, test_loader)
        print(f"epoch {epoch:02d} | mse {total / len(train_loader):.4f} | test NSE {nse:.3f}")


if __name__ == "__main__":
    main()
