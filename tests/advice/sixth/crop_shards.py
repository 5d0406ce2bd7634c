"""Crop type from satellite chips, streamed as tar shards from an object store."""

import argparse
import os
import tempfile
import time

import cv2
import numpy as np
import torch
import torch.nn.functional as F
import webdataset as wds
from torch import nn
from torch.utils.data import DataLoader

CROPS = ("wheat", "maize", "soy", "rice", "fallow")
SHARDS, PER_SHARD = 16, 30


def upload_shards(bucket):
    rng = np.random.default_rng(9)
    for shard in range(SHARDS):
        with wds.TarWriter(os.path.join(bucket, f"chips-{shard:04d}.tar")) as sink:
            for i in range(PER_SHARD):
                label = int(rng.integers(len(CROPS)))
                chip = rng.integers(0, 120, size=(16, 16, 3), dtype=np.uint8)
                chip = cv2.resize(chip, (192, 192), interpolation=cv2.INTER_CUBIC)
                chip[:: 4 + 3 * label] = 200
                ok, png = cv2.imencode(".png", chip)
                sink.write({"__key__": f"{shard:04d}_{i:05d}", "png": png.tobytes(), "cls": label})


def object_store(samples, latency=0.012):
    """Every object costs one ranged GET; the sleep stands for its round trip."""
    for sample in samples:
        time.sleep(latency)
        yield sample


def decode_chip(sample):
    chip = cv2.imdecode(np.frombuffer(sample["png"], np.uint8), cv2.IMREAD_COLOR)
    y, x = np.random.randint(0, 64, size=2)
    chip = chip[y : y + 128, x : x + 128]
    chip = np.rot90(chip, np.random.randint(4))
    tensor = torch.from_numpy(np.ascontiguousarray(chip.transpose(2, 0, 1))).float() / 255
    return tensor, int(sample["cls"])


def collate(samples):
    chips, labels = zip(*samples)
    return torch.stack(chips), torch.tensor(labels)


def make_loader(bucket, args):
    urls = [os.path.join(bucket, f"chips-{i:04d}.tar") for i in range(SHARDS)]
    dataset = (
        wds.WebDataset(urls, shardshuffle=SHARDS, nodesplitter=wds.split_by_node)
        .compose(object_store)
        .shuffle(60)
        .map(decode_chip)
        .batched(args.batch, collation_fn=collate)
    )
    return DataLoader(dataset, batch_size=None, num_workers=args.workers, persistent_workers=True)


class ChipNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 7, stride=4, padding=3)
        self.conv1 = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.conv2 = nn.Conv2d(2 * width, 4 * width, 3, stride=2, padding=1)
        self.fc = nn.Linear(4 * width, len(CROPS))

    def forward(self, x):
        x = F.relu(self.stem(x))
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=int(os.environ.get("EPOCHS", "4")))
    parser.add_argument("--batch", type=int, default=15)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--lr", type=float, default=3e-3)
    return parser.parse_args()


def main():
    args = parse_args()
    torch.manual_seed(9)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as bucket:
        upload_shards(bucket)
        loader = make_loader(bucket, args)
        net = ChipNet()
        optimizer = torch.optim.Adam(net.parameters(), lr=args.lr)
        for epoch in range(args.epochs):
            seen, loss_sum, hits = 0, 0.0, 0
            for chips, labels in loader:
                logits = net(chips)
                loss = F.cross_entropy(logits, labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                seen += len(labels)
                loss_sum += loss.item() * len(labels)
                hits += (logits.argmax(1) == labels).sum().item()
            print(f"epoch {epoch}: {seen} chips, loss {loss_sum / seen:.3f}, acc {hits / seen:.3f}", flush=True)


if __name__ == "__main__":
    main()
