# # Furniture point clouds - DGCNN baseline
# Converted from the notebook with `jupyter nbconvert --to script`

# %% imports
import argparse
import random
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


# %% config
class CFG:
    data = Path(__file__).parent / "data" / "chairs"
    classes = ["chair", "stool", "table", "bench", "lamp", "shelf"]
    n_train = 240
    n_valid = 48
    n_points = 480
    k = 8
    batch_size = 6
    num_workers = 1
    lr = 1e-3
    smoothing = 0.1
    seed = 2024


def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


# %% synthetic shapes, one npz per split
def box(rng, n, lo, hi):
    p = rng.uniform(lo, hi, (n, 3))
    axis = rng.integers(0, 3, n)
    side = rng.integers(0, 2, n)
    p[np.arange(n), axis] = np.where(side, np.asarray(hi)[axis], np.asarray(lo)[axis])
    return p


def shape(rng, c, n):
    q = n // 4
    h = rng.uniform(0.35, 0.5)
    seat = box(rng, q, (-0.5, -0.5, h), (0.5, 0.5, h + 0.08))
    legs = [box(rng, q // 4, (x, y, 0), (x + 0.08, y + 0.08, h)) for x in (-0.5, 0.42) for y in (-0.5, 0.42)]
    parts = [seat] + legs
    if c == 0:
        parts.append(box(rng, q, (-0.5, 0.42, h), (0.5, 0.5, 1.1)))
    elif c == 2:
        parts = [p * (1.6, 1.0, 1.5) for p in parts]
    elif c == 3:
        parts = [p * (2.2, 0.6, 0.8) for p in parts]
    elif c == 4:
        parts = [box(rng, q, (-0.03, -0.03, 0), (0.03, 0.03, 1.3)), box(rng, q, (-0.3, -0.3, 1.2), (0.3, 0.3, 1.5))]
    elif c == 5:
        parts = [box(rng, q, (-0.5, -0.2, z), (0.5, 0.2, z + 0.05)) for z in (0.1, 0.5, 0.9, 1.3)]
    pts = np.concatenate(parts)
    pts = pts[rng.integers(0, len(pts), n)] + rng.normal(0, 0.015, (n, 3))
    pts -= pts.mean(0)
    return (pts / np.linalg.norm(pts, axis=1).max()).astype(np.float32)


def build(folder):
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(CFG.seed)
    for split, n in (("train", CFG.n_train), ("valid", CFG.n_valid)):
        if (folder / f"{split}.npz").exists():
            continue
        y = rng.integers(0, len(CFG.classes), n)
        x = np.stack([shape(rng, c, 2 * CFG.n_points) for c in y])
        np.savez(folder / f"{split}.npz", points=x, label=y)


# %% dataset
class CloudDataset(Dataset):
    def __init__(self, path, train):
        with np.load(path) as z:
            self.points, self.label = z["points"], z["label"]
        self.train = train

    def __len__(self):
        return len(self.label)

    def __getitem__(self, i):
        pts = self.points[i]
        if self.train:
            pts = pts[torch.randperm(len(pts))[:CFG.n_points].numpy()]
            angle = float(torch.rand(())) * 2 * np.pi
            c, s = np.cos(angle), np.sin(angle)
            pts = pts @ np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]], dtype=np.float32)
            pts = pts * (0.8 + 0.4 * float(torch.rand(())))
        else:
            pts = pts[:CFG.n_points]
        return torch.from_numpy(np.ascontiguousarray(pts, dtype=np.float32)), int(self.label[i])


# %% model
def knn(x, k):
    with torch.no_grad():
        dist = torch.cdist(x, x)
        return dist.argsort(dim=-1)[:, :, :k]


def edge_features(x, idx):
    b, n, c = x.shape
    flat = (idx + torch.arange(b).view(-1, 1, 1) * n).view(-1)
    neighbours = x.reshape(b * n, c)[flat].view(b, n, -1, c)
    centre = x.unsqueeze(2).expand_as(neighbours)
    return torch.cat([centre, neighbours - centre], dim=-1)


class EdgeConv(nn.Module):
    def __init__(self, cin, cout, k):
        super().__init__()
        self.k = k
        self.mlp = nn.Sequential(nn.Linear(2 * cin, cout), nn.LeakyReLU(0.2))
        self.norm = nn.LayerNorm(cout)

    def forward(self, x):
        e = edge_features(x, knn(x, self.k))
        return self.norm(self.mlp(e).max(dim=2).values)


class DGCNN(nn.Module):
    def __init__(self, n_classes, k):
        super().__init__()
        self.conv1 = EdgeConv(3, 32, k)
        self.conv2 = EdgeConv(32, 32, k)
        self.conv3 = EdgeConv(32, 64, k)
        self.fuse = nn.Linear(128, 256)
        self.head = nn.Sequential(nn.Linear(512, 128), nn.LeakyReLU(0.2), nn.Dropout(0.3), nn.Linear(128, n_classes))

    def forward(self, x):
        a = self.conv1(x)
        b = self.conv2(a)
        c = self.conv3(b)
        h = F.leaky_relu(self.fuse(torch.cat([a, b, c], dim=-1)), 0.2)
        return self.head(torch.cat([h.max(1).values, h.mean(1)], dim=-1))


# %% train / valid
def train_fn(model, loader, optimizer, scheduler, criterion):
    model.train()
    total = 0.0
    for pts, label in loader:
        loss = criterion(model(pts), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        total += loss.item() * len(label)
    return total / len(loader.dataset)


@torch.no_grad()
def valid_fn(model, loader, criterion):
    model.eval()
    total, right = 0.0, 0
    for pts, label in loader:
        logits = model(pts)
        total += criterion(logits, label).item() * len(label)
        right += (logits.argmax(1) == label).sum().item()
    return total / len(loader.dataset), right / len(loader.dataset)


# %% run
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    args = parser.parse_args()
    seed_everything(CFG.seed)
    build(CFG.data)
    train_loader = DataLoader(CloudDataset(CFG.data / "train.npz", True), CFG.batch_size, shuffle=True,
                              num_workers=CFG.num_workers, persistent_workers=True)
    valid_loader = DataLoader(CloudDataset(CFG.data / "valid.npz", False), CFG.batch_size)
    model = DGCNN(len(CFG.classes), CFG.k)
    criterion = nn.CrossEntropyLoss(label_smoothing=CFG.smoothing)
    optimizer = torch.optim.AdamW(model.parameters(), lr=CFG.lr)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3 * CFG.lr, total_steps=args.epochs * len(train_loader))
    best = 0.0
    for epoch in range(args.epochs):
        train_loss = train_fn(model, train_loader, optimizer, scheduler, criterion)
        valid_loss, acc = valid_fn(model, valid_loader, criterion)
        print(f"Epoch {epoch + 1} - train_loss: {train_loss:.4f}  valid_loss: {valid_loss:.4f}  acc: {acc:.4f}")
        if acc > best:
            best = acc
            torch.save(model.state_dict(), CFG.data / "dgcnn_best.pth")
    print(f"CV: {best:.4f}")


if __name__ == "__main__":
    main()
