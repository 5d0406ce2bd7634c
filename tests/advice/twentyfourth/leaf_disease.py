"""Leaf disease classifier: field photos sorted in one folder per diagnosis."""
import argparse
import os
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image, ImageDraw
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "leaf_disease")
CLASSES = ["healthy", "leaf_rust", "powdery_mildew", "septoria"]
PHOTOS_PER_CLASS = 45
SPOT_COLOURS = {"leaf_rust": (176, 92, 30), "powdery_mildew": (226, 226, 218), "septoria": (72, 52, 38)}
MEAN, STD = [0.37, 0.44, 0.26], [0.16, 0.17, 0.13]


def draw_photo(rng, label, size=(2400, 1800)):
    soil = rng.integers(60, 110, (75, 100, 3), dtype=np.uint8)
    image = Image.fromarray(soil).resize(size, Image.BICUBIC)
    draw = ImageDraw.Draw(image)
    cx, cy = rng.integers(900, 1500), rng.integers(680, 1120)
    rx, ry = rng.integers(570, 840), rng.integers(390, 600)
    green = (int(rng.integers(50, 90)), int(rng.integers(120, 170)), int(rng.integers(40, 70)))
    draw.ellipse((cx - rx, cy - ry, cx + rx, cy + ry), fill=green)
    draw.line((cx - rx, cy, cx + rx, cy), fill=(150, 180, 110), width=14)
    if label != "healthy":
        for _ in range(rng.integers(15, 45)):
            angle, radius = rng.uniform(0, 2 * np.pi), rng.uniform(0, 0.85)
            x, y = cx + rx * radius * np.cos(angle), cy + ry * radius * np.sin(angle)
            r = rng.integers(15, 57)
            draw.ellipse((x - r, y - r, x + r, y + r), fill=SPOT_COLOURS[label])
    return image


def make_data():
    if os.path.exists(os.path.join(ROOT, "done")):
        return
    rng = np.random.default_rng(11)
    for label in CLASSES:
        os.makedirs(os.path.join(ROOT, label), exist_ok=True)
        for n in range(PHOTOS_PER_CLASS):
            draw_photo(rng, label).save(os.path.join(ROOT, label, f"IMG_{n:04d}.jpg"), quality=92)
    open(os.path.join(ROOT, "done"), "w").close()


class LeafPhotos(Dataset):
    def __init__(self, root, transform):
        self.transform = transform
        self.samples = []
        for target, label in enumerate(CLASSES):
            folder = os.path.join(root, label)
            for name in sorted(os.listdir(folder)):
                self.samples.append((os.path.join(folder, name), target))

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        path, target = self.samples[index]
        image = Image.open(path)
        image = image.convert("RGB")
        return self.transform(image), target


class LeafNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        layers, width = [], 3
        for out in (16, 32, 64, 96):
            layers += [nn.Conv2d(width, out, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU()]
            width = out
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.features(x).mean((2, 3)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--make", action="store_true")
    args = parser.parse_args()
    make_data()
    if args.make:
        return

    random.seed(3)
    torch.manual_seed(3)
    transform = transforms.Compose([
        transforms.Resize(160),
        transforms.RandomCrop(144),
        transforms.RandomHorizontalFlip(),
        transforms.ColorJitter(brightness=0.1),
        transforms.ToTensor(),
        transforms.Normalize(MEAN, STD),
    ])
    photos = LeafPhotos(ROOT, transform)
    loader = DataLoader(photos, batch_size=args.batch_size, shuffle=True, num_workers=args.workers,
                        drop_last=True)
    model = LeafNet(len(CLASSES))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-4)
    for epoch in range(args.epochs):
        start, total, correct, seen = time.time(), 0.0, 0, 0
        model.train()
        for images, targets in loader:
            logits = model(images)
            loss = F.cross_entropy(logits, targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(targets)
            correct += (logits.argmax(1) == targets).sum().item()
            seen += len(targets)
        print(f"epoch {epoch + 1}: loss {total / seen:.4f} acc {correct / seen:.3f} ({time.time() - start:.1f} s)")


if __name__ == "__main__":
    main()
