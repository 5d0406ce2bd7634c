"""Land-cover classification of six-band satellite patches stored in webdataset shards."""
import argparse
import io
import math
import tarfile
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import webdataset as wds

SHARDS = Path(__file__).parent / "data" / "paddies"
COVERS = ["paddy", "maize", "orchard", "forest", "water", "urban", "bare"]
BANDS, SIDE = 6, 64
PER_SHARD, N_TRAIN, N_VAL = 200, 6, 1


def write_shards(folder, seed=31):
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    spectra = rng.uniform(60, 180, (len(COVERS), BANDS))
    rows = np.arange(SIDE)[:, None] + np.zeros((1, SIDE))
    for s in range(N_TRAIN + N_VAL):
        path = folder / f"patches-{s:04d}.tar"
        if path.exists():
            continue
        tmp = path.with_suffix(".tmp")
        with tarfile.open(tmp, "w") as tar:
            for k in range(PER_SHARD):
                y = int(rng.integers(len(COVERS)))
                field = 14 * np.sin(rows * (0.2 + 0.1 * y) + rng.uniform(0, 6))
                patch = spectra[y][:, None, None] + field + rng.normal(0, 34, (BANDS, SIDE, SIDE))
                patch += rng.normal(0, 20, (BANDS, 1, 1))
                buf = io.BytesIO()
                np.save(buf, np.clip(patch, 0, 255).astype(np.uint8))
                for ext, payload in (("npy", buf.getvalue()), ("cls", str(y).encode())):
                    info = tarfile.TarInfo(f"{s:04d}{k:05d}.{ext}")
                    info.size = len(payload)
                    tar.addfile(info, io.BytesIO(payload))
        tmp.rename(path)


def augment(patch):
    turn = int(torch.randint(4, ()))
    patch = np.rot90(patch, turn, axes=(1, 2))
    if torch.rand(()) < 0.5:
        patch = patch[:, :, ::-1]
    return torch.from_numpy(patch.copy())


def get_loader(urls, batch_size, train, workers):
    pipe = wds.WebDataset(urls, shardshuffle=len(urls) if train else False, seed=1)
    if train:
        pipe = pipe.shuffle(400, seed=1)
    pipe = pipe.decode().to_tuple("npy", "cls").map_tuple(augment if train else torch.from_numpy, int)
    pipe = pipe.batched(batch_size, partial=not train)
    return wds.WebLoader(pipe, batch_size=None, num_workers=workers, persistent_workers=workers > 0)


class AverageMeter:
    def __init__(self):
        self.sum = self.count = 0

    def update(self, value, n=1):
        self.sum += value * n
        self.count += n

    @property
    def avg(self):
        return self.sum / max(1, self.count)


class BasicBlock(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.down = None
        if stride != 1 or cin != cout:
            self.down = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))
        self.act = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.bn2(self.conv2(self.act(self.bn1(self.conv1(x)))))
        return self.act(y + (x if self.down is None else self.down(x)))


class PatchNet(nn.Module):
    def __init__(self, bands, n_classes, width=40):
        super().__init__()
        self.register_buffer("mean", torch.full((1, bands, 1, 1), 120.0))
        self.stem = nn.Sequential(nn.Conv2d(bands, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True))
        self.blocks = nn.Sequential(BasicBlock(width, width, 1), BasicBlock(width, 2 * width, 2),
                                    BasicBlock(2 * width, 4 * width, 2))
        self.head = nn.Linear(4 * width, n_classes)

    def forward(self, x):
        x = (x.float() - self.mean) / 50.0
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


def train_epoch(model, loader, optimizer, schedule, step, loss_fn):
    model.train()
    losses = AverageMeter()
    for patch, cover in loader:
        for group in optimizer.param_groups:
            group["lr"] = schedule(step)
        loss = loss_fn(model(patch), cover)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.update(loss.item(), len(cover))
        step += 1
    return losses.avg, step


@torch.inference_mode()
def validate(model, loader):
    model.eval()
    top1 = AverageMeter()
    for patch, cover in loader:
        top1.update((model(patch).argmax(1) == cover).float().mean().item(), len(cover))
    return top1.avg


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--workers", type=int, default=1)
    args = parser.parse_args()
    write_shards(SHARDS)
    torch.manual_seed(8)
    urls = [str(SHARDS / f"patches-{s:04d}.tar") for s in range(N_TRAIN + N_VAL)]
    train_loader = get_loader(urls[:N_TRAIN], args.batch_size, True, args.workers)
    val_loader = get_loader(urls[N_TRAIN:], 2 * args.batch_size, False, 0)
    model = PatchNet(BANDS, len(COVERS))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, nesterov=True, weight_decay=5e-4)
    total = args.epochs * (N_TRAIN * PER_SHARD // args.batch_size)
    step, best = 0, 0.0

    def schedule(t):
        return 0.5 * args.lr * (1 + math.cos(math.pi * min(t, total) / total))

    for epoch in range(args.epochs):
        loss, step = train_epoch(model, train_loader, optimizer, schedule, step, nn.CrossEntropyLoss())
        top1 = validate(model, val_loader)
        print(f"Train: {epoch} loss {loss:.4f}  Val: top1 {100 * top1:.2f}")
        if top1 >= best:
            best = top1
            torch.save({"epoch": epoch, "state_dict": model.state_dict()}, SHARDS / "model_best.pth.tar")


if __name__ == "__main__":
    main()
