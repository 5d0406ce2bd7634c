"""Classify scanned shapes from point clouds with a PointNet-like network."""
import os

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 6))
SHAPES = 960
CLASSES = 5
SCANNED = 2048
POINTS = 768


def scan_shapes(seed=8):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, SHAPES)
    clouds = np.empty((SHAPES, SCANNED, 3), np.float16)
    for i, label in enumerate(labels):
        v = rng.normal(0, 1, (SCANNED, 3)).astype(np.float32)
        if label == 0:
            p = v / np.linalg.norm(v, axis=1, keepdims=True)
        elif label == 1:
            p = v / np.abs(v).max(1, keepdims=True)
        elif label == 2:
            p = np.c_[v[:, :2] / np.linalg.norm(v[:, :2], axis=1, keepdims=True), rng.uniform(-1, 1, SCANNED)]
        elif label == 3:
            p = v / np.abs(v).sum(1, keepdims=True)
        else:
            ring = v[:, :2] / np.linalg.norm(v[:, :2], axis=1, keepdims=True)
            p = np.c_[ring, np.zeros(SCANNED)] + 0.3 * v / np.linalg.norm(v, axis=1, keepdims=True)
        clouds[i] = p * rng.uniform(0.6, 1.2, 3)
    return clouds, labels


class ShapeClouds(Dataset):
    def __init__(self, clouds, labels):
        self.clouds, self.labels = clouds, labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        rng = np.random.default_rng(np.random.randint(1 << 31))
        points = self.clouds[i][rng.integers(0, SCANNED, POINTS)].astype(np.float32)
        a = rng.uniform(0, 2 * np.pi)
        turn = np.array([[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]], np.float32)
        points = points @ turn
        points += rng.standard_normal(points.shape, dtype=np.float32) * 0.02
        return torch.from_numpy(np.ascontiguousarray(points.T)), int(self.labels[i])


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.local = self.stack(3, 64, 128)
        self.joint = self.stack(256, 128, 256)
        self.head = nn.Sequential(nn.Linear(256, 128), nn.ReLU(), nn.Dropout(0.3),
                                  nn.Linear(128, CLASSES))

    @staticmethod
    def stack(*widths):
        layers = []
        for a, b in zip(widths, widths[1:]):
            layers += [nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU()]
        return nn.Sequential(*layers)

    def forward(self, points):
        x = self.local(points)
        context = x.amax(2, keepdim=True).expand_as(x)
        x = self.joint(torch.cat([x, context], 1))
        return self.head(x.amax(2))


def main():
    torch.manual_seed(0)
    np.random.seed(0)
    loader = DataLoader(ShapeClouds(*scan_shapes()), batch_size=16, shuffle=True, drop_last=True,
                        num_workers=1, prefetch_factor=4, persistent_workers=True)
    model = PointNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(EPOCHS):
        model.train()
        total, right, seen = 0.0, 0, 0
        for points, label in loader:
            logits = model(points)
            loss = nn.functional.cross_entropy(logits, label)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(label)
            right += (logits.argmax(1) == label).sum().item()
            seen += len(label)
        print(f"epoch {epoch}: loss {total / seen:.4f}, accuracy {right / seen:.3f}", flush=True)


if __name__ == "__main__":
    main()
