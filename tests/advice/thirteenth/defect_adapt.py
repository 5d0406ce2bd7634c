"""Surface-defect detection: adapt from rendered parts to shop-floor pictures (MMD)."""
import os
import tempfile
import time

import cv2
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

cv2.setNumThreads(1)
EPOCHS = int(os.environ.get("EPOCHS", 6))
BASE = os.path.join(os.environ.get("DATA_DIR", tempfile.gettempdir()), "defect_adapt")
cfg = dict(n_source=768, n_target=512, batch=16, size=64, lr=1e-3, mmd_weight=0.3)


def render(rng, defect, noise):
    img = np.full((128, 128), 120, np.uint8)
    cv2.randu(img, 100, 140)
    img = cv2.GaussianBlur(img, (9, 9), 0)
    if defect:
        p = rng.integers(20, 108, 4)
        cv2.line(img, (int(p[0]), int(p[1])), (int(p[2]), int(p[3])), 30, 3)
    if noise:
        img = np.clip(img + rng.normal(0, noise, img.shape), 0, 255).astype(np.uint8)
    return img


def prepare(domain, n, noise):
    folder = os.path.join(BASE, domain)
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(len(domain))
    for i in range(n):
        defect = i % 2
        path = os.path.join(folder, f"{i:05d}_{defect}.png")
        if not os.path.exists(path):
            cv2.imwrite(path, render(rng, defect, noise))
    return folder


class Parts(Dataset):
    def __init__(self, folder, labelled=True):
        self.files = sorted(os.path.join(folder, f) for f in os.listdir(folder))
        self.labelled = labelled

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        img = cv2.imread(self.files[i], cv2.IMREAD_GRAYSCALE)
        img = cv2.resize(img, (cfg["size"], cfg["size"]), interpolation=cv2.INTER_AREA)
        if np.random.rand() < 0.5:
            img = img[:, ::-1]
        x = torch.from_numpy(img.astype(np.float32) / 255.0)[None]
        if not self.labelled:
            return x
        return x, int(self.files[i][-5])


class Features(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 24, 5, padding=2)
        self.c2 = nn.Conv2d(24, 48, 3, padding=1)
        self.c3 = nn.Conv2d(48, 64, 3, padding=1)
        self.fc = nn.Linear(64 * 16, 64)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.c1(x)), 2)
        x = F.max_pool2d(F.relu(self.c2(x)), 2)
        x = F.adaptive_avg_pool2d(F.relu(self.c3(x)), 4)
        return F.relu(self.fc(x.flatten(1)))


def mmd(a, b, scales=(1.0, 4.0, 16.0)):
    z = torch.cat([a, b])
    d = torch.cdist(z, z).pow(2)
    k = sum(torch.exp(-d / s) for s in scales)
    n = len(a)
    return k[:n, :n].mean() + k[n:, n:].mean() - 2 * k[:n, n:].mean()


def main():
    torch.manual_seed(0)
    source = Parts(prepare("rendered", cfg["n_source"], 0))
    target = Parts(prepare("shopfloor", cfg["n_target"], 14), labelled=False)
    source_loader = DataLoader(source, cfg["batch"], shuffle=True, drop_last=True, num_workers=1)
    target_loader = DataLoader(target, cfg["batch"], shuffle=True, drop_last=True, num_workers=1)

    features, head = Features(), nn.Linear(64, 2)
    opt = torch.optim.Adam([*features.parameters(), *head.parameters()], lr=cfg["lr"])

    for epoch in range(EPOCHS):
        began = time.time()
        sums = np.zeros(2)
        for xs, ys in source_loader:
            xt = next(iter(target_loader))
            fs, ft = features(xs), features(xt)
            cls = F.cross_entropy(head(fs), ys)
            gap = mmd(fs, ft)
            opt.zero_grad()
            (cls + cfg["mmd_weight"] * gap).backward()
            opt.step()
            sums += cls.item(), gap.item()
        sums /= len(source_loader)
        print(f"epoch {epoch + 1} cls={sums[0]:.4f} mmd={sums[1]:.4f} ({time.time() - began:.1f}s)", flush=True)


if __name__ == "__main__":
    main()
