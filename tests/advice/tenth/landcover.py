"""Land cover classification from multispectral scenes (Sentinel-like, 8 bands), random 64 px chips."""
import os
import shutil
import tempfile
from pathlib import Path

import cv2
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, RandomSampler

EPOCHS = int(os.environ.get("EPOCHS", "7"))
N_SCENES = 6
SCENE = 1600
BANDS = 8
CHIP = 64
CHIPS_PER_EPOCH = 640
CLASSES = ["water", "forest", "crop", "urban", "bare"]
SIGNATURES = np.array([
    [900, 700, 500, 300, 250, 200, 150, 100],
    [300, 350, 500, 400, 1500, 2600, 2400, 900],
    [500, 700, 900, 800, 1900, 2900, 3100, 1700],
    [1500, 1600, 1700, 1800, 1900, 2000, 2100, 2200],
    [1200, 1500, 1900, 2300, 2500, 2700, 2800, 3300],
], dtype=np.float32)
MEAN = SIGNATURES.mean(0)
STD = SIGNATURES.std(0)


def synth_scene(rng):
    """Blobby class map, then a noisy spectrum for each pixel."""
    score = np.stack([
        cv2.resize(rng.normal(size=(10, 10)).astype(np.float32), (SCENE, SCENE), interpolation=cv2.INTER_CUBIC)
        for _ in CLASSES
    ])
    label = score.argmax(0).astype(np.uint8)
    image = SIGNATURES.T[:, label]
    image += rng.integers(-300, 300, size=(1, SCENE, SCENE), dtype=np.int16)
    return image.clip(0, 10000).astype(np.uint16), label


def build_archive(root: Path):
    rng = np.random.default_rng(2024)
    for i in range(N_SCENES):
        image, label = synth_scene(rng)
        np.save(root / f"T32_{i:02d}_img.npy", image)
        np.save(root / f"T32_{i:02d}_lab.npy", label)


def read_raster(path: Path) -> np.ndarray:
    return np.load(path)


class ChipDataset(Dataset):
    """Index -> (scene, random window). The label is the majority class in the window."""

    def __init__(self, root: Path):
        self.images = sorted(root.glob("*_img.npy"))
        self.labels = sorted(root.glob("*_lab.npy"))

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = read_raster(self.images[index])
        label = read_raster(self.labels[index])
        row, col = torch.randint(0, SCENE - CHIP, (2,)).tolist()
        chip = image[:, row:row + CHIP, col:col + CHIP].astype(np.float32)
        target = np.bincount(label[row:row + CHIP, col:col + CHIP].ravel(), minlength=len(CLASSES)).argmax()
        chip = (chip - MEAN[:, None, None]) / STD[:, None, None]
        k = int(torch.randint(0, 4, (1,)))
        chip = np.rot90(chip, k, axes=(1, 2)).copy()
        return torch.from_numpy(chip), int(target)


class ChipNet(nn.Module):
    def __init__(self, in_ch=BANDS, n_classes=len(CLASSES), width=12):
        super().__init__()
        layers, ch = [], in_ch
        for out in (width, 2 * width, 4 * width):
            layers += [nn.Conv2d(ch, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU(), nn.MaxPool2d(2)]
            ch = out
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(ch, n_classes)

    def forward(self, x):
        return self.head(self.features(x).mean((2, 3)))


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    root = Path(tempfile.mkdtemp(prefix="scenes_"))
    try:
        build_archive(root)
        dataset = ChipDataset(root)
        sampler = RandomSampler(dataset, replacement=True, num_samples=CHIPS_PER_EPOCH)
        loader = DataLoader(dataset, batch_size=16, sampler=sampler, num_workers=2, persistent_workers=True)
        model = ChipNet()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
        criterion = nn.CrossEntropyLoss()
        for epoch in range(1, EPOCHS + 1):
            total, correct, count = 0.0, 0, 0
            for chips, targets in loader:
                optimizer.zero_grad()
                logits = model(chips)
                loss = criterion(logits, targets)
                loss.backward()
                optimizer.step()
                total += loss.item() * len(targets)
                correct += int((logits.argmax(1) == targets).sum())
                count += len(targets)
            print(f"[{epoch:02d}/{EPOCHS}] loss={total / count:.4f} oa={correct / count:.3f}")
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
