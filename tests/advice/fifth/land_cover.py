"""Land cover from tiles streamed out of object storage, one shard per region."""

import math
import os
import random
import time
import zlib

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

# region -> number of tiles, as the bucket's inventory lists them
INVENTORY = {
    "eu-central": 300,
    "eu-west": 280,
    "us-east": 260,
    "us-west": 240,
    "in-north": 90,
    "br-south": 80,
    "cn-east": 75,
    "jp": 70,
    "za": 40,
    "ke": 35,
    "au-east": 30,
    "nz": 25,
    "greenland": 20,
    "patagonia": 20,
    "svalbard": 20,
    "kerguelen": 15,
}
GET_LATENCY = 0.003
STEP_SECONDS = 0.014
CLASSES = 6


def get_tile(region, number):
    time.sleep(GET_LATENCY)
    seed = zlib.crc32(f"{region}/{number}".encode())
    rng = np.random.default_rng(seed)
    label = seed % CLASSES
    tile = rng.standard_normal((4, 16, 16), dtype=np.float32)
    tile[label % 4] += 1 + label // 4
    return torch.from_numpy(tile), label


class TileStream(IterableDataset):
    def __init__(self, inventory, buffer_size=64):
        self.shards = list(inventory.items())
        self.buffer_size = buffer_size
        self.total = sum(inventory.values())

    def my_shards(self):
        info = get_worker_info()
        if info is None:
            return list(self.shards)
        per_worker = math.ceil(len(self.shards) / info.num_workers)
        first = info.id * per_worker
        return self.shards[first : first + per_worker]

    def __iter__(self):
        buffer = []
        shards = self.my_shards()
        random.shuffle(shards)
        for region, count in shards:
            for number in random.sample(range(count), count):
                buffer.append((region, number))
                if len(buffer) >= self.buffer_size:
                    k = random.randrange(len(buffer))
                    buffer[k], buffer[-1] = buffer[-1], buffer[k]
                    yield get_tile(*buffer.pop())
        random.shuffle(buffer)
        for region, number in buffer:
            yield get_tile(region, number)


class Remote(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        time.sleep(STEP_SECONDS / 3)
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        time.sleep(STEP_SECONDS * 2 / 3)
        return grad


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(4, 8, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.head = nn.Linear(32, CLASSES)

    def forward(self, x):
        return self.head(Remote.apply(self.features(x)))


def train(epochs, batch_size=16, num_workers=4):
    stream = TileStream(INVENTORY)
    loader = DataLoader(
        stream, batch_size=batch_size, num_workers=num_workers, persistent_workers=num_workers > 0, prefetch_factor=4
    )
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(epochs):
        start, hits, seen = time.monotonic(), 0, 0
        for tiles, labels in loader:
            optimizer.zero_grad()
            logits = net(tiles)
            criterion(logits, labels).backward()
            optimizer.step()
            hits += (logits.argmax(1) == labels).sum().item()
            seen += len(labels)
        print(f"epoch {epoch}: {seen} tiles, accuracy {hits / seen:.3f}, {time.monotonic() - start:.2f} s", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(1)
    random.seed(1)
    train(int(os.environ.get("EPOCHS", "9")))
