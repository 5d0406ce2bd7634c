"""Object classes from lidar point clouds in tar shards (webdataset), PointNet style."""
import argparse
import io
import tarfile
import time
from pathlib import Path

import numpy as np
import torch
import webdataset as wds
from torch import nn

HERE = Path(__file__).resolve().parent
SHARDS = HERE / "data" / "lidar"
POINTS = 512
CLASSES = 5


def cloud(rng, kind):
    p = rng.normal(0, 1, (POINTS, 3))
    if kind == 0:
        p /= np.linalg.norm(p, axis=1, keepdims=True)
    elif kind == 1:
        p = rng.uniform(-1, 1, (POINTS, 3))
    elif kind == 2:
        p[:, :2] /= np.linalg.norm(p[:, :2], axis=1, keepdims=True)
    elif kind == 3:
        p[:, 2] *= 0.1
    else:
        p[:, :2] *= (1 - rng.uniform(0, 1, (POINTS, 1)))
    return (p * rng.uniform(0.7, 1.3, 3) + rng.normal(0, 0.08, p.shape)).astype(np.float32)


def write_shards(folder, shards=8, per_shard=60):
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(41)
    for s in range(shards):
        with tarfile.open(folder / f"lidar-{s:03d}.tar", "w") as tar:
            for i in range(per_shard):
                kind = int(rng.integers(CLASSES))
                buffer = io.BytesIO()
                np.save(buffer, cloud(rng, kind))
                for ext, body in (("npy", buffer.getvalue()), ("cls", str(kind).encode())):
                    info = tarfile.TarInfo(f"{s:03d}{i:05d}.{ext}")
                    info.size = len(body)
                    tar.addfile(info, io.BytesIO(body))
    (folder / "complete").touch()


def make_loader(args):
    urls = [str(p) for p in sorted(SHARDS.glob("lidar-*.tar"))]
    dataset = (wds.WebDataset(urls, shardshuffle=len(urls), seed=args.seed, empty_check=False)
               .shuffle(300, seed=args.seed)
               .decode()
               .to_tuple("npy", "cls")
               .batched(args.batch_size, partial=False))
    return wds.WebLoader(dataset, batch_size=None, num_workers=1, persistent_workers=True, prefetch_factor=4)


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.point = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 512), nn.ReLU(),
                                   nn.Linear(512, 256))
        self.cls = nn.Sequential(nn.Linear(256, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, CLASSES))

    def forward(self, xyz):
        return self.cls(self.point(xyz).amax(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=6)
    args = parser.parse_args()
    if not (SHARDS / "complete").exists():
        write_shards(SHARDS)

    torch.manual_seed(args.seed)
    loader = make_loader(args)
    net = PointNet()
    optimizer = torch.optim.Adam(net.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        t0, losses, right, seen = time.time(), [], torch.zeros(()), 0
        for xyz, kind in loader:
            logits = net(torch.as_tensor(xyz))
            kind = torch.as_tensor(kind)
            loss = nn.functional.cross_entropy(logits, kind)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
            right += (logits.detach().argmax(1) == kind).sum()
            seen += len(kind)
        print(f"epoch {epoch + 1} loss {torch.stack(losses).mean().item():.4f} acc {right.item() / seen:.3f} "
              f"{time.time() - t0:.2f} s", flush=True)


if __name__ == "__main__":
    main()
