"""Day-ahead forecasts of electricity load at many substations from the past week (patches and attention)."""
import argparse
import os
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

CONFIG = {
    "seed": 23,
    "stations": 64,
    "hours": 24 * 365,
    "past": 24 * 7,
    "ahead": 24,
    "patch": 8,
    "width": 192,
    "heads": 4,
    "depth": 3,
    "batch_size": 128,
    "steps_per_epoch": 24,
    "epochs": 3,
    "lr": 1e-3,
}


def make_data(folder, config):
    path = os.path.join(folder, "load.npy")
    if os.path.exists(path):
        return path
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(config["seed"])
    hour = np.arange(config["hours"])
    rows = []
    for _ in range(config["stations"]):
        day = rng.uniform(0.3, 1) * np.sin(2 * np.pi * (hour / 24 + rng.random()))
        week = rng.uniform(0.1, 0.5) * np.sin(2 * np.pi * (hour / 168 + rng.random()))
        year = rng.uniform(0.2, 0.8) * np.cos(2 * np.pi * (hour / 8760 + rng.random()))
        noise = np.convolve(rng.normal(size=len(hour) + 5), np.ones(6) / 6, "valid") * 0.3
        rows.append(day + week + year + noise)
    np.save(path, np.asarray(rows, np.float32))
    return path


class Windows(Dataset):
    """All windows of all stations; a batch is taken in one indexing operation."""

    def __init__(self, series, first, last, config):
        self.series = series
        self.first = first
        self.span = last - first - config["past"] - config["ahead"] + 1
        self.past = config["past"]
        self.offsets = torch.arange(config["past"] + config["ahead"])

    def __len__(self):
        return self.series.shape[0] * self.span

    def __getitem__(self, positions):
        positions = torch.as_tensor(positions)
        station = positions // self.span
        start = self.first + positions % self.span
        window = self.series[station[:, None], start[:, None] + self.offsets]
        return window[:, : self.past], window[:, self.past:]


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.mix = nn.Linear(width, width)
        self.widen = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.mix(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, c))
        return x + self.narrow(F.relu(self.widen(self.norm2(x))))


class Forecaster(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config["width"]
        self.patch = config["patch"]
        patches = config["past"] // config["patch"]
        self.enter = nn.Linear(config["patch"], width)
        self.place = nn.Parameter(torch.randn(patches, width) * 0.02)
        self.blocks = nn.Sequential(*[Block(width, config["heads"]) for _ in range(config["depth"])])
        self.leave = nn.Linear(patches * width, config["ahead"])

    def forward(self, past):
        centre = past.mean(1, keepdim=True)
        scale = past.std(1, keepdim=True) + 1e-3
        x = ((past - centre) / scale).unflatten(1, (-1, self.patch))
        x = self.blocks(self.enter(x) + self.place)
        return self.leave(x.flatten(1)) * scale + centre


def loader_for(windows, config, samples):
    sampler = RandomSampler(windows, num_samples=samples)
    return DataLoader(windows, sampler=BatchSampler(sampler, config["batch_size"], False), batch_size=None)


def train_epoch(model, loader, optimizer):
    model.train()
    total = torch.zeros(())
    for past, future in loader:
        loss = F.smooth_l1_loss(model(past), future)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    return total.item() / len(loader)


@torch.inference_mode()
def mean_error(model, loader):
    model.eval()
    return torch.stack([(model(past) - future).abs().mean() for past, future in loader]).mean().item()


def run(folder, config):
    torch.manual_seed(config["seed"])
    series = torch.from_numpy(np.load(make_data(folder, config)))
    cut = config["hours"] * 9 // 10
    train = Windows(series, 0, cut, config)
    test = Windows(series, cut, config["hours"], config)
    train_loader = loader_for(train, config, config["steps_per_epoch"] * config["batch_size"])
    test_loader = loader_for(test, config, 3 * config["batch_size"])
    model = Forecaster(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["lr"], fused=True)
    for epoch in range(config["epochs"]):
        start = time.perf_counter()
        loss = train_epoch(model, train_loader, optimizer)
        print(f"epoch {epoch + 1}/{config['epochs']}  loss {loss:.4f}  {time.perf_counter() - start:.1f} s", flush=True)
    print(f"mean absolute error a day ahead {mean_error(model, test_loader):.4f}")
    torch.save({"config": config, "model": model.state_dict()}, os.path.join(folder, "forecaster.pt"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="data/gridload")
    parser.add_argument("--epochs", type=int, default=CONFIG["epochs"])
    parser.add_argument("--batch-size", type=int, default=CONFIG["batch_size"])
    options = parser.parse_args()
    run(options.data, {**CONFIG, "epochs": options.epochs, "batch_size": options.batch_size})
