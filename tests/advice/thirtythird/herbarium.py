"""Species classification on herbarium sheet crops, following the layout of the torchvision references."""
import argparse
import io
import json
import os
import random
import tarfile

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms as T

NUM_CLASSES = 10
SHARDS = 5
PER_SHARD = 240


def draw_sheet(rng, label, size=88):
    yy, xx = np.mgrid[0:size, 0:size] / size - 0.5
    angle = rng.uniform(0, np.pi)
    u = xx * np.cos(angle) + yy * np.sin(angle)
    v = -xx * np.sin(angle) + yy * np.cos(angle)
    lobes = 2 + label % 5
    ragged = 0.04 + 0.03 * (label // 5)
    theta = np.arctan2(v, u)
    radius = np.sqrt(u ** 2 + (1.6 * v) ** 2)
    leaf = radius < 0.28 + ragged * np.cos(lobes * theta) + rng.normal(0, 0.01)
    veins = 0.5 + 0.5 * np.sin(40 * u + 8 * np.abs(v) * (1 + label % 3))
    base = np.stack([0.86 - 0.5 * leaf, 0.82 - 0.3 * leaf, 0.70 - 0.45 * leaf], axis=-1)
    base += (leaf * veins * 0.12)[..., None] + rng.normal(0, 0.03, base.shape)
    return Image.fromarray((base.clip(0, 1) * 255).astype(np.uint8))


def add_member(archive, name, payload):
    info = tarfile.TarInfo(name)
    info.size = len(payload)
    archive.addfile(info, io.BytesIO(payload))


def prepare(root):
    if os.path.exists(os.path.join(root, "index.json")):
        return
    os.makedirs(root, exist_ok=True)
    rng = np.random.default_rng(7)
    entries = []
    for s in range(SHARDS):
        shard = f"sheets-{s:03d}.tar"
        with tarfile.open(os.path.join(root, shard), "w") as archive:
            for i in range(PER_SHARD):
                label = int(rng.integers(NUM_CLASSES))
                key = f"specimen_{s:03d}_{i:05d}"
                sheet = draw_sheet(rng, label)
                for suffix, img, q in ((".jpg", sheet, 90), (".thumb.jpg", sheet.resize((24, 24)), 70)):
                    buf = io.BytesIO()
                    img.save(buf, "JPEG", quality=q)
                    add_member(archive, key + suffix, buf.getvalue())
                x0, y0 = (int(v) for v in rng.integers(0, 9, 2))
                meta = {"species": label, "crop": [x0, y0, x0 + 80, y0 + 80], "collector": int(rng.integers(40))}
                add_member(archive, key + ".json", json.dumps(meta).encode())
                entries.append({"shard": shard, "key": key, "split": "val" if i % 14 == 0 else "train"})
    with open(os.path.join(root, "index.json"), "w") as f:
        json.dump(entries, f)


class SheetDataset(Dataset):
    def __init__(self, root, split, transform):
        self.root = root
        self.transform = transform
        with open(os.path.join(root, "index.json")) as f:
            self.entries = [e for e in json.load(f) if e["split"] == split]

    def __len__(self):
        return len(self.entries)

    def _read(self, entry):
        with tarfile.open(os.path.join(self.root, entry["shard"])) as archive:
            picture = archive.extractfile(entry["key"] + ".jpg").read()
            meta = json.loads(archive.extractfile(entry["key"] + ".json").read())
        return picture, meta

    def __getitem__(self, i):
        picture, meta = self._read(self.entries[i])
        image = Image.open(io.BytesIO(picture)).convert("RGB").crop(meta["crop"])
        return self.transform(image), meta["species"]


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.skip = nn.Conv2d(cin, cout, 1, stride, bias=False)

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + self.skip(x))


def build_model(width):
    return nn.Sequential(
        nn.Conv2d(3, width, 5, 2, 2), nn.ReLU(),
        Block(width, width, 1), Block(width, 2 * width, 2), Block(2 * width, 4 * width, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, NUM_CLASSES))


class SmoothedValue:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, value, n=1):
        self.total += value * n
        self.count += n

    @property
    def global_avg(self):
        return self.total / max(self.count, 1)


def train_one_epoch(model, criterion, optimizer, data_loader, epoch):
    model.train()
    loss_meter, acc_meter = SmoothedValue(), SmoothedValue()
    for image, target in data_loader:
        output = model(image)
        loss = criterion(output, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss_meter.update(loss.item(), len(target))
        acc_meter.update((output.argmax(1) == target).float().mean().item(), len(target))
    print(f"Epoch: [{epoch}] loss {loss_meter.global_avg:.4f} acc1 {acc_meter.global_avg:.3f}", flush=True)


@torch.inference_mode()
def evaluate(model, data_loader):
    model.eval()
    hits = SmoothedValue()
    for image, target in data_loader:
        hits.update((model(image).argmax(1) == target).float().mean().item(), len(target))
    print(f"Test: acc1 {hits.global_avg:.3f}", flush=True)


def main(args):
    prepare(args.data)
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    train_tf = T.Compose([T.RandomResizedCrop(64, scale=(0.6, 1.0)), T.RandomHorizontalFlip(), T.ToTensor(),
                          T.Normalize([0.6] * 3, [0.25] * 3)])
    test_tf = T.Compose([T.Resize(64), T.ToTensor(), T.Normalize([0.6] * 3, [0.25] * 3)])
    train_loader = DataLoader(SheetDataset(args.data, "train", train_tf), batch_size=args.batch_size, shuffle=True,
                              num_workers=args.workers, drop_last=True)
    test_loader = DataLoader(SheetDataset(args.data, "val", test_tf), batch_size=args.batch_size,
                             num_workers=args.workers)
    model = build_model(args.width)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
    for epoch in range(args.epochs):
        train_one_epoch(model, criterion, optimizer, train_loader, epoch)
        scheduler.step()
    evaluate(model, test_loader)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="data/herbarium")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--width", type=int, default=36)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    main(parser.parse_args())
