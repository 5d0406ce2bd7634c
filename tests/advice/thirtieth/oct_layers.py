"""Retinal layer segmentation on OCT B-scans (patch training, full-scan validation)."""
import argparse
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

CFG = {
    "data": "data/oct_layers",
    "seed": 21,
    "epochs": 3,
    "classes": 5,                  # vitreous, NFL, inner, outer/RPE, choroid
    "patch": 64,
    "patches_per_scan": 4,
    "batch": 16,
    "workers": 1,
    "lr": 2e-3,
    "width": 12,
    "val": {"stride": 8, "batch": 48},
}
HEIGHT, WIDTH = 128, 192


# -------------------------------------------------------------------- volumes
def simulate_volume(rng, scans):
    cols = np.arange(WIDTH)
    image = np.zeros((scans, HEIGHT, WIDTH), np.uint8)
    label = np.zeros((scans, HEIGHT, WIDTH), np.uint8)
    base, tilt = rng.uniform(28, 48), rng.uniform(-0.08, 0.08)
    thick = rng.uniform([6, 14, 12], [12, 24, 20])
    depth = rng.uniform(6, 14)
    for s in range(scans):
        pit = depth * np.exp(-0.5 * ((cols - WIDTH / 2) / 24) ** 2) * np.exp(-0.5 * ((s - scans / 2) / 3) ** 2)
        top = base + tilt * cols + 2 * np.sin(cols / 30 + rng.uniform(0, 6)) + pit
        bounds = [top, top + thick[0] * (1 - pit / 20)]
        bounds.append(bounds[-1] + thick[1] * (1 - pit / 30))
        bounds.append(bounds[-1] + thick[2])
        rows = np.arange(HEIGHT)[:, None]
        lab = sum((rows >= b[None]).astype(np.uint8) for b in bounds)
        level = np.array([18, 150, 90, 120, 70], np.float32)[lab]
        fade = np.exp(-np.maximum(rows - bounds[-1][None], 0) / 30)
        speckle = rng.gamma(3.0, 1 / 3.0, size=lab.shape)
        image[s] = np.clip(level * fade * speckle + rng.normal(0, 6, lab.shape), 0, 255)
        label[s] = lab
    return image, label


def make_data(root, volumes=14, scans=16):
    os.makedirs(root, exist_ok=True)
    rng = np.random.default_rng(4)
    paths = []
    for v in range(volumes):
        path = os.path.join(root, f"eye_{v:03d}.npz")
        if not os.path.exists(path):
            image, label = simulate_volume(rng, scans)
            np.savez_compressed(path, image=image, label=label)
        paths.append(path)
    return paths


def load_scans(paths):
    images, labels = [], []
    for p in paths:
        with np.load(p) as z:
            images.append(z["image"])
            labels.append(z["label"])
    return np.concatenate(images), np.concatenate(labels)


class PatchSet(Dataset):
    def __init__(self, images, labels, cfg):
        self.images, self.labels = images, labels
        self.patch, self.per_scan = cfg["patch"], cfg["patches_per_scan"]

    def __len__(self):
        return len(self.images) * self.per_scan

    def __getitem__(self, i):
        s, p = i // self.per_scan, self.patch
        y = int(torch.randint(HEIGHT - p + 1, (1,)))
        x = int(torch.randint(WIDTH - p + 1, (1,)))
        img = self.images[s, y:y + p, x:x + p].astype(np.float32) / 255
        lab = self.labels[s, y:y + p, x:x + p].astype(np.int64)
        if torch.rand(1) < 0.5:
            img, lab = img[:, ::-1], lab[:, ::-1]
        gain = float(torch.empty(1).uniform_(0.8, 1.2))
        return torch.from_numpy(img * gain)[None], torch.from_numpy(lab.copy())


# -------------------------------------------------------------------- network
def conv(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class SmallUNet(nn.Module):
    def __init__(self, w, classes):
        super().__init__()
        self.e1, self.e2, self.e3 = conv(1, w), conv(w, 2 * w), conv(2 * w, 4 * w)
        self.d2, self.d1 = conv(6 * w, 2 * w), conv(3 * w, w)
        self.out = nn.Conv2d(w, classes, 1)

    def forward(self, x):
        a = self.e1(x)
        b = self.e2(F.max_pool2d(a, 2))
        c = self.e3(F.max_pool2d(b, 2))
        b = self.d2(torch.cat([F.interpolate(c, scale_factor=2.0), b], 1))
        a = self.d1(torch.cat([F.interpolate(b, scale_factor=2.0), a], 1))
        return self.out(a)


# -------------------------------------------------------------------- validation
def window_starts(size, patch, stride):
    last = size - patch
    starts = list(range(0, last + 1, stride))
    if starts[-1] != last:
        starts.append(last)
    return starts


@torch.no_grad()
def predict_scan(model, scan, cfg):
    """Blend patch probabilities over the whole B-scan."""
    p = cfg["patch"]
    places = [(y, x) for y in window_starts(HEIGHT, p, cfg["val"]["stride"])
              for x in window_starts(WIDTH, p, cfg["val"]["stride"])]
    ramp = torch.hann_window(p + 2, periodic=False)[1:-1]
    weight = ramp[:, None] * ramp[None, :] + 1e-3
    prob = torch.zeros(cfg["classes"], HEIGHT, WIDTH)
    for k in range(0, len(places), cfg["val"]["batch"]):
        part = places[k:k + cfg["val"]["batch"]]
        tiles = torch.stack([scan[:, y:y + p, x:x + p] for y, x in part])
        for (y, x), q in zip(part, model(tiles).softmax(1)):
            prob[:, y:y + p, x:x + p] += q * weight
    return prob.argmax(0)


def validate(model, images, labels, cfg):
    model.eval()
    inter = torch.zeros(cfg["classes"])
    size = torch.zeros(cfg["classes"])
    for img, lab in zip(images, labels):
        scan = torch.from_numpy(img.astype(np.float32) / 255)[None]
        pred = predict_scan(model, scan, cfg)
        truth = torch.from_numpy(lab.astype(np.int64))
        for c in range(cfg["classes"]):
            a, b = pred == c, truth == c
            inter[c] += (a & b).sum()
            size[c] += a.sum() + b.sum()
    return (2 * inter / size.clamp(min=1)).tolist()


# -------------------------------------------------------------------- training
def train_epoch(model, loader, opt):
    model.train()
    total = 0.0
    for x, y in loader:
        logits = model(x)
        loss = F.cross_entropy(logits, y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        total += loss.item()
    return total / len(loader)


def main(cfg):
    torch.manual_seed(cfg["seed"])
    paths = make_data(cfg["data"])
    train_x, train_y = load_scans(paths[:11])
    val_x, val_y = (a[::2] for a in load_scans(paths[11:]))
    loader = DataLoader(PatchSet(train_x, train_y, cfg), batch_size=cfg["batch"], shuffle=True,
                        drop_last=True, num_workers=cfg["workers"], persistent_workers=cfg["workers"] > 0)
    model = SmallUNet(cfg["width"], cfg["classes"])
    opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
    best = 0.0
    for epoch in range(cfg["epochs"]):
        loss = train_epoch(model, loader, opt)
        dice = validate(model, val_x, val_y, cfg)
        mean = sum(dice) / len(dice)
        print(f"epoch {epoch}: loss {loss:.4f} dice {mean:.4f} [" + " ".join(f"{d:.3f}" for d in dice) + "]", flush=True)
        if mean > best:
            best = mean
            torch.save(model.state_dict(), os.path.join(cfg["data"], "best.pt"))


if __name__ == "__main__":
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--data", default=CFG["data"])
    ap.add_argument("--epochs", type=int, default=CFG["epochs"])
    ap.add_argument("--workers", type=int, default=CFG["workers"])
    main({**CFG, **vars(ap.parse_args())})
