"""Traffic sign recognition on cropped dash-camera images."""
import argparse
import json
import os
import time

import numpy as np
import torch
import torch.nn as nn
from PIL import Image, ImageDraw
from torch.utils.data import DataLoader, Dataset, RandomSampler

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "traffic_signs")
SIGNS = ["stop", "yield", "no_entry", "speed_limit", "priority", "roundabout", "crossing", "parking"]
CROPS = 2400
MEAN = np.array([0.45, 0.43, 0.42], dtype=np.float32)
STD = np.array([0.25, 0.25, 0.25], dtype=np.float32)


def draw_crop(rng, label):
    size = int(rng.integers(64, 110))
    image = Image.fromarray(rng.integers(50, 180, (8, 8, 3), dtype=np.uint8)).resize((size, size), Image.BILINEAR)
    draw = ImageDraw.Draw(image)
    c, r = size / 2 + rng.uniform(-4, 4), size * rng.uniform(0.32, 0.44)
    corners = [8, 3, 36, 36, 4, 36, 3, 4][label]
    fill = [(190, 20, 30), (240, 240, 235), (200, 30, 30), (245, 245, 245),
            (240, 200, 40), (30, 80, 180), (240, 235, 230), (30, 70, 170)][label]
    draw.regular_polygon((c, c, r), corners, rotation=int(rng.integers(-8, 8)), fill=fill, outline=(150, 20, 20))
    draw.text((c - 8, c - 6), SIGNS[label][:3].upper(), fill=(20, 20, 20))
    pixels = np.asarray(image, dtype=np.float32) * rng.uniform(0.5, 1.1) + rng.normal(0, 6, (size, size, 3))
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def make_data():
    index_path = os.path.join(ROOT, "index.json")
    if os.path.exists(index_path):
        return
    os.makedirs(os.path.join(ROOT, "crops"), exist_ok=True)
    rng = np.random.default_rng(31)
    records = []
    for n in range(CROPS):
        label = int(rng.integers(len(SIGNS)))
        name = f"{n:05d}.jpg"
        draw_crop(rng, label).save(os.path.join(ROOT, "crops", name), quality=90)
        records.append({"file": name, "sign": SIGNS[label], "split": "test" if n % 8 == 0 else "train"})
    with open(index_path, "w") as handle:
        json.dump(records, handle)


class SignCrops(Dataset):
    def __init__(self, root, split):
        with open(os.path.join(root, "index.json")) as handle:
            self.records = [record for record in json.load(handle) if record["split"] == split]
        self.folder = os.path.join(root, "crops")

    def __len__(self):
        return len(self.records)

    def __getitem__(self, index):
        record = self.records[index]
        with Image.open(os.path.join(self.folder, record["file"])) as image:
            pixels = np.array(image.convert("RGB").resize((48, 48), Image.BILINEAR), dtype=np.float32)
        pixels = torch.from_numpy((pixels / 255 - MEAN) / STD).permute(2, 0, 1)
        return pixels, SIGNS.index(record["sign"])


def build_model(classes):
    def block(a, b):
        return [nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True), nn.MaxPool2d(2)]
    return nn.Sequential(*block(3, 16), *block(16, 32), *block(32, 64), nn.Flatten(), nn.Linear(64 * 36, classes))


def train_one_epoch(model, loader, criterion, optimizer):
    model.train()
    total, seen = 0.0, 0
    for pixels, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(pixels), labels)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(labels)
        seen += len(labels)
    return total / seen


@torch.no_grad()
def test_accuracy(model, loader):
    model.eval()
    hits, seen = 0, 0
    for pixels, labels in loader:
        hits += (model(pixels).argmax(1) == labels).sum().item()
        seen += len(labels)
    return hits / seen


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--make", action="store_true")
    args = parser.parse_args()
    make_data()
    if args.make:
        return

    torch.manual_seed(7)
    train_set, test_set = SignCrops(ROOT, "train"), SignCrops(ROOT, "test")
    sampler = RandomSampler(train_set, generator=torch.Generator().manual_seed(7))
    train_loader = DataLoader(train_set, batch_size=args.batch_size, sampler=sampler, num_workers=2,
                              multiprocessing_context="spawn")
    test_loader = DataLoader(test_set, batch_size=128, num_workers=0)
    model = build_model(len(SIGNS))
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, nesterov=True)
    for epoch in range(args.epochs):
        start = time.time()
        loss = train_one_epoch(model, train_loader, criterion, optimizer)
        accuracy = test_accuracy(model, test_loader)
        print(f"[{epoch + 1}/{args.epochs}] loss {loss:.4f} test acc {accuracy:.3f} {time.time() - start:.1f}s")


if __name__ == "__main__":
    main()
