"""Leaf diseases: trained on exported leaf crops, checked on the growers' own photos after each epoch."""
import os
import tempfile
from pathlib import Path

import cv2
import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

EPOCHS = int(os.environ.get("EPOCHS", 6))
ROOT = Path(os.environ.get("DATA_DIR", tempfile.gettempdir())) / "leaf_disease"
DISEASES = ("healthy", "rust", "blight", "mildew")
CROPS, PHOTOS = 768, 120
SPOT = {"healthy": (60, 160, 60), "rust": (40, 80, 190), "blight": (30, 40, 50), "mildew": (225, 225, 230)}


def draw_leaf(rng, leaf, disease, spots):
    image = leaf.copy()
    height, width = image.shape[:2]
    for _ in range(spots):
        centre = (int(rng.integers(width)), int(rng.integers(height)))
        cv2.circle(image, centre, int(rng.integers(height // 30, height // 12)), SPOT[disease], -1)
    return image


def make_images():
    rng = np.random.default_rng(2)
    listing = {}
    for kind, count, (width, height) in (("crops", CROPS, (96, 96)), ("photos", PHOTOS, (1920, 1440))):
        folder = ROOT / kind
        folder.mkdir(parents=True, exist_ok=True)
        leaves = []
        for _ in range(4):
            coarse = rng.integers(20, 110, (max(height // 6, 8), max(width // 6, 8), 3), dtype=np.uint8)
            coarse[..., 1] += 70
            leaves.append(cv2.resize(coarse, (width, height), interpolation=cv2.INTER_LINEAR))
        listing[kind] = []
        for i in range(count):
            label = i % len(DISEASES)
            path = folder / f"{i:04d}_{DISEASES[label]}.jpg"
            if not path.exists():
                image = draw_leaf(rng, leaves[int(rng.integers(4))], DISEASES[label], 14)
                cv2.imwrite(str(path), image, [cv2.IMWRITE_JPEG_QUALITY, 88])
            listing[kind].append((path, label))
    return listing


class LeafImages(Dataset):
    def __init__(self, items, transform):
        self.items = items
        self.transform = transform

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        path, label = self.items[index]
        with Image.open(path) as image:
            return self.transform(image.convert("RGB")), label


def build_model():
    def block(a, b):
        return [nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*block(3, 12), *block(12, 24), *block(24, 48),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(48, len(DISEASES)))


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    hits = torch.zeros(len(DISEASES))
    counts = torch.zeros(len(DISEASES))
    for images, labels in loader:
        right = model(images).argmax(1) == labels
        hits += torch.bincount(labels[right], minlength=len(DISEASES))
        counts += torch.bincount(labels, minlength=len(DISEASES))
    return hits / counts


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    listing = make_images()
    normalise = transforms.Normalize((0.4, 0.5, 0.3), (0.2, 0.2, 0.2))
    augment = transforms.Compose([transforms.RandomHorizontalFlip(), transforms.RandomCrop(80),
                                  transforms.ToTensor(), normalise])
    plain = transforms.Compose([transforms.Resize(96), transforms.CenterCrop(80), transforms.ToTensor(), normalise])
    train_set = LeafImages(listing["crops"], augment)
    val_set = LeafImages(listing["photos"], plain)
    train_loader = DataLoader(train_set, batch_size=32, shuffle=True, num_workers=1, persistent_workers=True)
    val_loader = DataLoader(val_set, batch_size=32)
    model = build_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
    for epoch in range(EPOCHS):
        model.train()
        total = 0.0
        for images, labels in train_loader:
            optimizer.zero_grad(set_to_none=True)
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(labels)
        recall = evaluate(model, val_loader)
        shown = " ".join(f"{name} {value:.2f}" for name, value in zip(DISEASES, recall.tolist()))
        print(f"epoch {epoch}: loss {total / len(train_set):.4f} recall {shown}", flush=True)


if __name__ == "__main__":
    main()
