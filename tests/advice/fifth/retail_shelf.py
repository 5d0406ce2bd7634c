"""Shelf photographs: is the product facing the customer?"""

import os
import tempfile
import time
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", "8"))
DEVICE_TIME = 0.10
cv2.setNumThreads(0)
LOADER = dict(batch_size=16, num_workers=2, persistent_workers=True, prefetch_factor=2)


def write_photos(root, count):
    rng = np.random.default_rng(4)
    for k in range(count):
        label = k % 4
        small = rng.integers(0, 200, (20, 30, 3), dtype=np.uint8)
        photo = cv2.resize(small, (480, 320), interpolation=cv2.INTER_CUBIC)
        cv2.rectangle(photo, (90 * label + 20, 60), (90 * label + 90, 260), (250, 250, 250), -1)
        cv2.imwrite(str(root / f"{k:04d}_{label}.jpg"), photo, [cv2.IMWRITE_JPEG_QUALITY, 90])


def train_transform(photo, size, rng):
    h, w = photo.shape[:2]
    top, left = rng.integers(0, h // 8), rng.integers(0, w // 8)
    photo = photo[top : top + h * 7 // 8, left : left + w * 7 // 8]
    photo = cv2.resize(photo, (size, size), interpolation=cv2.INTER_AREA)
    return np.clip(photo.astype(np.float32) * rng.uniform(0.8, 1.2), 0, 255)


def val_transform(photo, size):
    return cv2.resize(photo, (size, size), interpolation=cv2.INTER_AREA).astype(np.float32)


class Shelf(Dataset):
    def __init__(self, files, transform):
        self.files, self.transform = files, transform

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        path = self.files[i]
        photo = cv2.imread(str(path), cv2.IMREAD_COLOR)
        x = torch.from_numpy(self.transform(photo)).permute(2, 0, 1)
        return (x - 127.5) / 63.0, int(path.stem.split("_")[1])


class OnDevice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        time.sleep(DEVICE_TIME * 0.35)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        time.sleep(DEVICE_TIME * 0.65)
        return grad


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 8, 8), nn.ReLU(), nn.AdaptiveAvgPool2d((2, 8)), nn.Flatten())
        self.head = nn.Linear(128, 4)

    def forward(self, x):
        return self.head(OnDevice.apply(self.stem(x)))


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    hits = [(model(x).argmax(1) == y).float() for x, y in loader]
    return torch.cat(hits).mean().item()


def main():
    torch.set_num_threads(1)
    torch.manual_seed(7)
    with tempfile.TemporaryDirectory() as tmp:
        write_photos(Path(tmp), 560)
        files, rng = sorted(Path(tmp).glob("*.jpg")), np.random.default_rng(0)
        train = DataLoader(Shelf(files[:512], partial(train_transform, size=128, rng=rng)), shuffle=True, **LOADER)
        val = DataLoader(Shelf(files[512:], partial(val_transform, size=128)), **LOADER)
        model = Classifier()
        optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
        criterion = nn.CrossEntropyLoss()
        for epoch in range(EPOCHS):
            t0, total = time.time(), 0.0
            model.train()
            for x, y in train:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item()
            print(
                f"epoch {epoch + 1} loss {total / len(train):.3f} val {evaluate(model, val):.3f} {time.time() - t0:.1f}s",
                flush=True,
            )


if __name__ == "__main__":
    main()
