"""Leaf disease classification from field photographs (phone camera JPEGs)."""

import argparse
import csv
import os
import tempfile

import cv2
import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms as T

CLASSES = ["healthy", "rust", "blight", "mildew"]


def take_photos(root, count, seed):
    """Write JPEG photographs and a labels.csv to root."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(count):
        label = int(rng.integers(len(CLASSES)))
        coarse = rng.integers(30, 220, size=(24, 32, 3), dtype=np.uint8)
        coarse[..., 1] = np.clip(coarse[..., 1].astype(int) + 30, 0, 255)
        image = cv2.resize(coarse, (1600, 1200), interpolation=cv2.INTER_LINEAR)
        for _ in range(12 * label):
            center = (int(rng.integers(1600)), int(rng.integers(1200)))
            cv2.circle(image, center, int(rng.integers(15, 50)), (20, 40 + 50 * label, 120), -1)
        name = f"IMG_{i:04d}.jpg"
        cv2.imwrite(os.path.join(root, name), image, [cv2.IMWRITE_JPEG_QUALITY, 92])
        rows.append((name, CLASSES[label]))
    with open(os.path.join(root, "labels.csv"), "w", newline="") as handle:
        csv.writer(handle).writerows(rows)


class LeafPhotos(Dataset):
    def __init__(self, root, transform):
        self.root = root
        self.transform = transform
        with open(os.path.join(root, "labels.csv"), newline="") as handle:
            self.rows = list(csv.reader(handle))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        name, label = self.rows[index]
        with Image.open(os.path.join(self.root, name)) as img:
            image = img.convert("RGB")
        return self.transform(image), CLASSES.index(label)


def build_model():
    def block(cin, cout):
        return nn.Sequential(
            nn.Conv2d(cin, cout, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(cout),
            nn.ReLU(inplace=True),
        )

    return nn.Sequential(
        block(3, 16),
        block(16, 32),
        block(32, 64),
        block(64, 96),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(96, len(CLASSES)),
    )


def train_one_epoch(model, loader, optimizer, criterion):
    model.train()
    total, correct, seen = 0.0, 0, 0
    for images, labels in loader:
        optimizer.zero_grad(set_to_none=True)
        logits = model(images)
        loss = criterion(logits, labels)
        loss.backward()
        optimizer.step()
        total += loss.item() * labels.numel()
        correct += (logits.argmax(1) == labels).sum().item()
        seen += labels.numel()
    return total / seen, correct / seen


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=int(os.environ.get("EPOCHS", "10")))
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--photos", type=int, default=160)
    args = parser.parse_args()

    torch.manual_seed(11)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as root:
        take_photos(root, args.photos, seed=11)
        transform = T.Compose(
            [
                T.RandomResizedCrop(160, scale=(0.35, 1.0)),
                T.RandomHorizontalFlip(),
                T.RandomVerticalFlip(),
                T.ColorJitter(0.2, 0.2),
                T.ToTensor(),
                T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
            ]
        )
        loader = DataLoader(
            LeafPhotos(root, transform),
            batch_size=args.batch_size,
            shuffle=True,
            num_workers=args.workers,
            persistent_workers=args.workers > 0,
            drop_last=True,
        )
        model = build_model()
        optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
        criterion = nn.CrossEntropyLoss()
        for epoch in range(args.epochs):
            loss, accuracy = train_one_epoch(model, loader, optimizer, criterion)
            print(f"epoch {epoch + 1}: loss {loss:.4f} accuracy {accuracy:.3f}", flush=True)


if __name__ == "__main__":
    main()
