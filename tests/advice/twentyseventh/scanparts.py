"""PointNet part classifier on scanned point clouds (reference training script)."""
import argparse
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.utils.data as data

DATA = Path(__file__).parent / "data" / "scanparts"
CLASSES = 8


def make_scans(root, n=1500, points=600):
    rng = np.random.default_rng(8)
    root.mkdir(parents=True, exist_ok=True)
    labels = rng.integers(CLASSES, size=n)
    clouds = np.empty((n, points, 3), np.float32)
    for i, c in enumerate(labels):
        u, v = rng.uniform(0, 1, (2, points))
        a = 2 * np.pi * u
        if c < 3:
            r = [0.3, 0.6, 0.9][c]
            p = np.stack([r * np.cos(a), r * np.sin(a), 2 * v - 1], 1)
        elif c < 6:
            k = [2, 3, 6][c - 3]
            b = 2 * np.pi * v
            p = np.stack([(0.7 + 0.25 * np.cos(b)) * np.cos(a), (0.7 + 0.25 * np.cos(b)) * np.sin(a),
                          0.25 * np.sin(b) + 0.2 * np.sin(k * a)], 1)
        elif c == 6:
            p = np.stack([2 * u - 1, 2 * v - 1, 0.3 * np.sin(6 * u)], 1)
        else:
            p = rng.normal(size=(points, 3))
            p /= np.linalg.norm(p, axis=1, keepdims=True)
        clouds[i] = p * rng.uniform(0.8, 1.2, 3) + rng.normal(0, 0.03, (points, 3))
    cut = int(0.85 * n)
    np.savez(root / "train.npz", points=clouds[:cut], label=labels[:cut])
    np.savez(root / "test.npz", points=clouds[cut:], label=labels[cut:])


class Scans(data.Dataset):
    def __init__(self, path, train, points=512):
        with np.load(path) as z:
            self.points = torch.from_numpy(z["points"])
            self.label = torch.from_numpy(z["label"])
        self.train, self.n = train, points

    def __len__(self):
        return len(self.label)

    def __getitem__(self, i):
        p = self.points[i]
        if self.train:
            p = p[torch.randperm(p.shape[0])[:self.n]]
            a = torch.rand(()) * 6.2832
            c, s = torch.cos(a), torch.sin(a)
            rot = torch.eye(3)
            rot[0, 0], rot[0, 1], rot[1, 0], rot[1, 1] = c, -s, s, c
            p = p @ rot + 0.01 * torch.randn(self.n, 3)
        else:
            p = p[:self.n]
        return p, self.label[i]


class SharedMLP(nn.Module):
    def __init__(self, *widths):
        super().__init__()
        self.fc = nn.ModuleList([nn.Linear(i, o, bias=False) for i, o in zip(widths, widths[1:])])
        self.bn = nn.ModuleList([nn.BatchNorm1d(o) for o in widths[1:]])

    def forward(self, x):
        b, n, _ = x.shape
        x = x.reshape(b * n, -1)
        for fc, bn in zip(self.fc, self.bn):
            x = F.relu(bn(fc(x)), inplace=True)
        return x.view(b, n, -1)


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.local = SharedMLP(3, 32, 64, 128)
        self.head = nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, CLASSES))

    def forward(self, p):
        return self.head(self.local(p).amax(1))


def train_one_epoch(model, criterion, optimizer, loader, epoch, print_freq):
    model.train()
    seen, total = 0, 0.0
    for i, (p, y) in enumerate(loader):
        loss = criterion(model(p), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(y)
        seen += len(y)
        if i % print_freq == 0:
            print(f"Epoch: [{epoch}] [{i}/{len(loader)}] loss: {loss.item():.4f} "
                  f"lr: {optimizer.param_groups[0]['lr']:.5f}", flush=True)
    return total / seen


def evaluate(model, criterion, loader):
    model.eval()
    total = hits = 0.0
    with torch.inference_mode():
        for p, y in loader:
            out = model(p)
            total += criterion(out, y).item() * len(y)
            hits += (out.argmax(1) == y).sum().item()
    return total / len(loader.dataset), hits / len(loader.dataset)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", default=5, type=int)
    ap.add_argument("-b", "--batch-size", default=24, type=int)
    ap.add_argument("--lr", default=1e-3, type=float)
    ap.add_argument("--print-freq", default=20, type=int)
    args = ap.parse_args()
    if not (DATA / "test.npz").exists():
        make_scans(DATA)
    torch.manual_seed(0)
    train_set, test_set = Scans(DATA / "train.npz", True), Scans(DATA / "test.npz", False)
    train_loader = data.DataLoader(train_set, args.batch_size, shuffle=True, drop_last=True)
    test_loader = data.DataLoader(test_set, 75)
    model = PointNet()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), args.lr)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    for epoch in range(args.epochs):
        loss = train_one_epoch(model, criterion, optimizer, train_loader, epoch, args.print_freq)
        scheduler.step()
        test_loss, acc = evaluate(model, criterion, test_loader)
        print(f"Test: epoch {epoch} train_loss {loss:.5f} loss {test_loss:.5f} Acc@1 {100 * acc:.2f}")
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch,
                    "args": args}, DATA / "checkpoint.pth")


if __name__ == "__main__":
    main()
