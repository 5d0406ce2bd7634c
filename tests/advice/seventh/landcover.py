"""Land cover segmentation from six-band tiles; spectral indices and haze are computed on the fly."""

import os
import tempfile

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 3))
TILES, BANDS, SIDE = 24, 6, 512
CLASSES = 4
BLUE, GREEN, RED, NIR, SWIR1, SWIR2 = range(BANDS)

torch.set_num_threads(1)


def make_tiles(folder):
    rng = np.random.default_rng(17)
    signatures = rng.uniform(600, 5000, (CLASSES, BANDS)).astype(np.float32)
    for i in range(TILES):
        coarse = rng.integers(0, CLASSES, (8, 8))
        mask = np.kron(coarse, np.ones((SIDE // 8, SIDE // 8), dtype=np.int64))
        tile = signatures[mask] + rng.normal(0, 250, (SIDE, SIDE, 1)).astype(np.float32)
        np.save(os.path.join(folder, f"tile_{i:03d}.npy"), tile.transpose(2, 0, 1).clip(0, 10000).astype(np.uint16))
        np.save(os.path.join(folder, f"mask_{i:03d}.npy"), mask.astype(np.uint8))


def normalised_difference(a, b):
    return (a - b) / (a + b + 1e-4)


def box_blur(x, radius):
    return F.avg_pool2d(x[None], 2 * radius + 1, stride=1, padding=radius, count_include_pad=False)[0]


class Tiles(Dataset):
    def __init__(self, folder, ids, train):
        self.folder, self.ids, self.train = folder, ids, train

    def __len__(self):
        return len(self.ids)

    def haze(self, x):
        layer = F.interpolate(torch.rand(1, 1, 8, 8), size=(SIDE, SIDE), mode="bicubic", align_corners=False)[0]
        strength = 0.25 * torch.rand(1)
        weight = torch.linspace(1.0, 0.3, BANDS)[:, None, None]
        return x * (1 - strength * layer * weight) + strength * layer * weight

    def jitter(self, x):
        gain = 1 + 0.1 * torch.randn(BANDS, 1, 1)
        bias = 0.02 * torch.randn(BANDS, 1, 1)
        return (x * gain + bias).clamp(0, 1.2)

    def __getitem__(self, k):
        i = self.ids[k]
        tile = np.load(os.path.join(self.folder, f"tile_{i:03d}.npy")).astype(np.float32)
        mask = torch.from_numpy(np.load(os.path.join(self.folder, f"mask_{i:03d}.npy"))).long()
        x = torch.from_numpy(tile) / 10000
        if self.train:
            x = self.jitter(self.haze(x))
            x = (x + 0.01 * torch.randn_like(x)).clamp(min=0)
        x = x.sqrt()
        indices = torch.stack(
            [
                normalised_difference(x[NIR], x[RED]),
                normalised_difference(x[GREEN], x[NIR]),
                normalised_difference(x[SWIR1], x[NIR]),
                normalised_difference(x[RED], x[BLUE]),
            ]
        )
        mean = box_blur(x, 2)
        texture = (box_blur(x * x, 2) - mean * mean).clamp(min=0).sqrt()
        x = torch.cat([x, indices, texture.mean(0, keepdim=True)])
        x = (x - x.mean(dim=(1, 2), keepdim=True)) / (x.std(dim=(1, 2), keepdim=True) + 1e-3)
        if self.train and torch.rand(1) < 0.5:
            x, mask = x.flip(-1), mask.flip(-1)
        return F.avg_pool2d(x, 8), mask[::8, ::8].contiguous()


def init_worker(worker_id):
    # DataLoader pins its workers to a single thread; let the tensor code use the machine
    torch.set_num_threads(os.cpu_count())


class SegNet(nn.Module):
    def __init__(self, bands=BANDS + 5):
        super().__init__()
        self.a = nn.Conv2d(bands, 16, 3, padding=1)
        self.b = nn.Conv2d(16, 16, 3, padding=2, dilation=2)
        self.c = nn.Conv2d(16, CLASSES, 1)

    def forward(self, x):
        return self.c(F.relu(self.b(F.relu(self.a(x)))))


def miou(confusion):
    hit = confusion.diag()
    return (hit / (confusion.sum(0) + confusion.sum(1) - hit).clamp(min=1)).mean().item()


def main():
    torch.manual_seed(2)
    with tempfile.TemporaryDirectory(prefix="tiles_") as folder:
        make_tiles(folder)
        ids = torch.randperm(TILES).tolist()
        shared = dict(batch_size=4, num_workers=2, persistent_workers=True, worker_init_fn=init_worker)
        train = DataLoader(Tiles(folder, ids[4:], True), shuffle=True, **shared)
        valid = DataLoader(Tiles(folder, ids[:4], False), **shared)
        net = SegNet()
        opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True)
        for epoch in range(EPOCHS):
            net.train()
            total = 0.0
            for x, mask in train:
                loss = F.cross_entropy(net(x), mask)
                opt.zero_grad()
                loss.backward()
                opt.step()
                total += loss.item()
            net.eval()
            confusion = torch.zeros(CLASSES, CLASSES)
            with torch.no_grad():
                for x, mask in valid:
                    pair = mask.flatten() * CLASSES + net(x).argmax(1).flatten()
                    confusion += torch.bincount(pair, minlength=CLASSES**2).view(CLASSES, CLASSES)
            print(f"pass {epoch}: loss {total / len(train):.3f}, mIoU {miou(confusion):.3f}", flush=True)


if __name__ == "__main__":
    main()
