"""Train on shards (tar files) that are downloaded one after the other by the workers."""

import argparse
import itertools
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Shards(IterableDataset):
    """Endless pass over the shards; worker k of n takes the shards k, k + n, ..."""

    def __init__(self, shards, per_shard, download_s, sample_ms):
        self.shards, self.per_shard = shards, per_shard
        self.download_s, self.sample_ms = download_s, sample_ms

    def download(self, shard):
        time.sleep(self.download_s)
        g = torch.Generator().manual_seed(shard)
        return torch.randn(self.per_shard, 48, generator=g)

    def __iter__(self):
        info = get_worker_info()
        k, n = (info.id, info.num_workers) if info else (0, 1)
        for shard in itertools.count(k, n):
            data = self.download(shard % self.shards)
            for j in range(self.per_shard):
                time.sleep(self.sample_ms / 1000)
                yield {"features": data[j], "target": j % 3}


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(48, 64), nn.ReLU(), nn.Linear(64, 3))

    def forward(self, features):
        return self.body(features)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=240)
    ap.add_argument("--batch-size", type=int, default=8)
    ap.add_argument("--shards", type=int, default=64)
    ap.add_argument("--per-shard", type=int, default=160)
    ap.add_argument("--download-s", type=float, default=0.9)
    ap.add_argument("--sample-ms", type=float, default=0.5)
    ap.add_argument("--step-ms", type=float, default=30.0, help="accelerator time of a step")
    ap.add_argument("--num-workers", type=int, default=2)
    ap.add_argument("--prefetch-factor", type=int, default=2)
    ap.add_argument("--pin-memory", action="store_true")
    ap.add_argument("--any-order", action="store_true", help="in_order=False")
    args = ap.parse_args()

    options = {}
    if args.num_workers:
        options = dict(prefetch_factor=args.prefetch_factor, in_order=not args.any_order)
    loader = DataLoader(
        Shards(args.shards, args.per_shard, args.download_s, args.sample_ms),
        batch_size=args.batch_size,
        num_workers=args.num_workers,
        pin_memory=args.pin_memory,
        **options,
    )
    net = Classifier()
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    start = time.time()
    for step, batch in enumerate(loader, 1):
        loss = nn.functional.cross_entropy(net(batch["features"]), batch["target"])
        opt.zero_grad()
        loss.backward()
        opt.step()
        time.sleep(args.step_ms / 1000)  # stand-in for the accelerator
        if step % 40 == 0:
            print(f"step {step} loss {loss.item():.3f} {step / (time.time() - start):.1f} it/s", flush=True)
        if step == args.steps:
            break
    print(f"trained for {time.time() - start:.2f} s")


if __name__ == "__main__":
    main()
