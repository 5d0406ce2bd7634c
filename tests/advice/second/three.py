"""Token windows in shards. The first window of a shard waits until the shard is downloaded.

Settings are given as name=value.
"""

import sys
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

CONFIG = {
    "epochs": 6,
    "workers": 2,
    "prefetch": 2,
    "batch": 8,
    "shards": 3,
    "batches_per_shard": 11,
    "download_ms": 420,
    "read_ms": 1.5,
    "device_ms": 34,
    "context": 64,
    "vocabulary": 96,
}


def configure(words):
    config = dict(CONFIG)
    for word in words:
        name, _, value = word.partition("=")
        if name not in config:
            raise SystemExit(f"unknown setting {name}; known: {', '.join(config)}")
        config[name] = type(config[name])(float(value))
    return config


class Windows(Dataset):
    def __init__(self, config):
        self.config = config
        self.per_shard = config["batch"] * config["batches_per_shard"]
        count = config["shards"] * self.per_shard
        rng = np.random.default_rng(11)
        self.tokens = rng.integers(0, config["vocabulary"], count * config["context"] + 1)

    def __len__(self):
        return self.config["shards"] * self.per_shard

    def __getitem__(self, index):
        if index % self.per_shard == 0:
            time.sleep(self.config["download_ms"] / 1000)
        time.sleep(self.config["read_ms"] / 1000)
        start = index * self.config["context"]
        window = torch.from_numpy(self.tokens[start : start + self.config["context"] + 1])
        return window[:-1], window[1:]


class Bigram(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.device_s = config["device_ms"] / 1000
        self.embed = nn.Embedding(config["vocabulary"], 24)
        self.out = nn.Linear(24, config["vocabulary"])

    def forward(self, tokens):
        time.sleep(self.device_s)  # the accelerator
        return self.out(self.embed(tokens))


def train(config):
    loader = DataLoader(
        Windows(config),
        batch_size=config["batch"],
        num_workers=config["workers"],
        prefetch_factor=config["prefetch"],
        persistent_workers=True,
    )
    model = Bigram(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    began = time.perf_counter()
    for epoch in range(config["epochs"]):
        for tokens, following in loader:
            optimizer.zero_grad(set_to_none=True)
            loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), following.flatten())
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}", flush=True)
    print(f"trained for {time.perf_counter() - began:.2f} s")


if __name__ == "__main__":
    torch.manual_seed(2)
    train(configure(sys.argv[1:]))
