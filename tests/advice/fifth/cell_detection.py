"""Cell detector: centre heat-map and size regression on microscopy fields annotated with outlines."""

import os
import tempfile
import time

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 8))
FIELDS, CELLS, POINTS, SIDE = 192, 40, 72, 384
BATCH, WORKERS, STRIDE = 16, 2, 8
cv2.setNumThreads(0)


def prepare(folder):
    rng = np.random.default_rng(0)
    angle = np.linspace(0, 2 * np.pi, POINTS, endpoint=False)
    for k in range(FIELDS):
        centre = rng.uniform(30, SIDE - 30, (CELLS, 1, 2))
        radius = rng.uniform(8, 20, (CELLS, 1)) * (1 + 0.1 * np.sin(angle * rng.integers(2, 7, (CELLS, 1))))
        outline = centre + np.stack([np.cos(angle) * radius, np.sin(angle) * radius], -1)
        field = np.full((SIDE, SIDE, 3), 30, np.uint8)
        cv2.fillPoly(field, list(outline.astype(np.int32)), (90, 160, 120))
        cv2.imwrite(f"{folder}/{k:03d}.jpg", field)
        np.save(f"{folder}/{k:03d}.npy", outline.astype(np.float32))


class CellFields(Dataset):
    def __init__(self, folder):
        self.folder = folder

    def __len__(self):
        return FIELDS

    def __getitem__(self, i):
        image = cv2.cvtColor(cv2.imread(f"{self.folder}/{i:03d}.jpg"), cv2.COLOR_BGR2RGB)
        outlines = np.load(f"{self.folder}/{i:03d}.npy")
        if np.random.rand() < 0.5:
            image = image[:, ::-1]
            outlines = outlines * [-1, 1] + [SIDE - 1, 0]
        image = cv2.GaussianBlur(np.ascontiguousarray(image), (3, 3), 0)
        low, high = outlines.min(1), outlines.max(1)
        target = {
            "image_id": i,
            "boxes": torch.as_tensor(np.concatenate([low, high], 1), dtype=torch.float32),
            "segmentation": outlines.tolist(),
            "area": float(np.prod(high - low, 1).sum()),
        }
        return torch.from_numpy(image).permute(2, 0, 1).float().div(255), target


def collate_fn(batch):
    images, targets = zip(*batch)
    return torch.stack(images), list(targets)


def encode(targets):
    n = SIDE // STRIDE
    heat, size = torch.zeros(len(targets), 1, n, n), torch.zeros(len(targets), 2, n, n)
    for b, target in enumerate(targets):
        boxes = target["boxes"] / STRIDE
        cx, cy = (boxes[:, [0, 1]] + boxes[:, [2, 3]]).div(2).long().clamp(0, n - 1).T
        heat[b, 0, cy, cx] = 1
        size[b, :, cy, cx] = (boxes[:, 2:] - boxes[:, :2]).T
    return heat, size


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 12, 4, 4),
            nn.ReLU(),
            nn.Conv2d(12, 24, 3, 2, 1),
            nn.ReLU(),
            nn.Conv2d(24, 24, 3, 1, 1),
            nn.ReLU(),
        )
        self.heat, self.size = nn.Conv2d(24, 1, 1), nn.Conv2d(24, 2, 1)

    def forward(self, x):
        x = self.body(x)
        return self.heat(x), self.size(x)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        prepare(folder)
        loader = DataLoader(
            CellFields(folder),
            BATCH,
            shuffle=True,
            num_workers=WORKERS,
            collate_fn=collate_fn,
            persistent_workers=True,
            prefetch_factor=2,
            drop_last=True,
        )
        net = Detector()
        opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
        for epoch in range(EPOCHS):
            tic, running = time.time(), 0.0
            for images, targets in loader:
                heat, size = encode(targets)
                heat_hat, size_hat = net(images)
                loss = F.binary_cross_entropy_with_logits(heat_hat, heat, pos_weight=torch.tensor(20.0))
                loss = loss + 0.05 * (F.l1_loss(size_hat, size, reduction="none") * heat).sum() / heat.sum()
                opt.zero_grad()
                loss.backward()
                opt.step()
                running += loss.item()
            print(f"epoch {epoch:2d}: loss {running / len(loader):.4f}, {time.time() - tic:.2f} s", flush=True)


if __name__ == "__main__":
    main()
