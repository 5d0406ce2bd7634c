"""Leaf disease classifier: a small CNN on photographs taken in the field."""

import argparse
import os
import tempfile
import time

import cv2
import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms as T

cv2.setNumThreads(0)


def make_photos(folder, count, classes, seed=3):
    rng = np.random.default_rng(seed)
    items = []
    for k in range(count):
        label = k % classes
        base = rng.integers(0, 255, (24 + 6 * label, 32 + 8 * label, 3), dtype=np.uint8)
        photo = cv2.resize(base, (2592, 1944), interpolation=cv2.INTER_LINEAR)
        path = os.path.join(folder, f"IMG_{k:04d}.jpg")
        cv2.imwrite(path, photo, [cv2.IMWRITE_JPEG_QUALITY, 88])
        items.append((path, label))
    return items


class LeafPhotos(Dataset):
    def __init__(self, items, transform):
        self.items = items
        self.transform = transform

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        path, label = self.items[i]
        photo = Image.open(path).convert("RGB")
        return self.transform(photo), label


def conv(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, 2, 1), nn.BatchNorm2d(cout), nn.ReLU())


class Trainer:
    def __init__(self, args, folder):
        items = make_photos(folder, args.photos, args.classes)
        augment = T.Compose(
            [
                T.RandomResizedCrop(args.size, scale=(0.4, 1.0)),
                T.RandomHorizontalFlip(),
                T.ColorJitter(0.2, 0.2, 0.2),
                T.ToTensor(),
                T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
            ]
        )
        self.loader = DataLoader(
            LeafPhotos(items, augment),
            batch_size=args.batch,
            shuffle=True,
            num_workers=args.workers,
            persistent_workers=args.workers > 0,
            drop_last=True,
        )
        self.model = nn.Sequential(
            conv(3, 16),
            conv(16, 32),
            conv(32, 64),
            conv(64, 96),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(96, args.classes),
        )
        self.loss = nn.CrossEntropyLoss(label_smoothing=0.05)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    def train_epoch(self):
        self.model.train()
        total, correct, seen = 0.0, 0, 0
        for images, labels in self.loader:
            logits = self.model(images)
            loss = self.loss(logits, labels)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.optimizer.step()
            total += loss.item() * len(labels)
            correct += (logits.argmax(1) == labels).sum().item()
            seen += len(labels)
        return total / seen, correct / seen


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--photos", type=int, default=64)
    p.add_argument("--classes", type=int, default=8)
    p.add_argument("--size", type=int, default=144)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--epochs", type=int, default=int(os.environ.get("EPOCHS", "12")))
    args = p.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(args, folder)
        for epoch in range(args.epochs):
            start = time.perf_counter()
            loss, acc = trainer.train_epoch()
            print(f"epoch {epoch} loss {loss:.4f} acc {acc:.3f} {time.perf_counter() - start:.2f}s", flush=True)


if __name__ == "__main__":
    main()
