"""Train a small image classifier on samples streamed from object storage."""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class BucketStream(IterableDataset):
    """Streams the objects of a bucket; each worker takes every n-th object."""

    def __init__(self, n_objects, get_ms):
        self.n_objects = n_objects
        self.get_ms = get_ms

    def get_object(self, key):
        time.sleep(self.get_ms / 1000)  # GET request to the object store
        g = torch.Generator().manual_seed(key)
        return torch.randn(3, 32, 32, generator=g)

    def __iter__(self):
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        for key in range(first, self.n_objects, step):
            yield self.get_object(key), key % 10


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--objects", type=int, default=480, help="objects per epoch")
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--get-ms", type=float, default=8.0)
    p.add_argument("--lr", type=float, default=0.01)
    p.add_argument("--num-workers", type=int, default=1)
    p.add_argument("--prefetch-factor", type=int, default=2)
    p.add_argument("--persistent-workers", type=int, default=1)
    p.add_argument("--pin-memory", type=int, default=0)
    return p.parse_args()


def main():
    args = parse_args()
    torch.manual_seed(0)
    workers = {}
    if args.num_workers > 0:
        workers = dict(prefetch_factor=args.prefetch_factor, persistent_workers=bool(args.persistent_workers))
    loader = DataLoader(
        BucketStream(args.objects, args.get_ms),
        batch_size=args.batch_size,
        num_workers=args.num_workers,
        pin_memory=bool(args.pin_memory),
        **workers,
    )
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, 10)
    )
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    loss_fn = nn.CrossEntropyLoss()

    begin = time.time()
    for epoch in range(args.epochs):
        total, seen, t0 = 0.0, 0, time.time()
        for images, labels in loader:
            loss = loss_fn(model(images), labels)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(labels)
            seen += len(labels)
        print(f"epoch {epoch}: loss {total / seen:.4f}, {seen} samples, {time.time() - t0:.2f} s", flush=True)
    print(f"trained for {time.time() - begin:.2f} s")


if __name__ == "__main__":
    main()
