# Weave-defect classifier for the loom cameras (5 classes).
"""Textile QC: small convnet on 48x48 fabric patches, torchvision v2 transforms."""
import os
import time
import warnings

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset
from torchvision.transforms import v2

warnings.filterwarnings("ignore", category=UserWarning)
torch.set_num_threads(1)
EPOCHS = int(os.environ.get("EPOCHS", 7))
CLASSES = ["ok", "slub", "broken_pick", "stain", "hole"]
PEEK_EVERY = 4


def weave(n, seed):
    g = torch.Generator().manual_seed(seed)
    r = torch.arange(48)
    ground = (((r[:, None] // 2 + r[None] // 2) % 2) * 60 + 90).float()
    imgs = ground.expand(n, 1, 48, 48) + 12 * torch.randn(n, 1, 48, 48, generator=g)
    y = torch.randint(0, len(CLASSES), (n,), generator=g)
    pos = torch.randint(6, 36, (n, 2), generator=g)
    for i in range(n):
        a, b = pos[i].tolist()
        if y[i] == 1:
            imgs[i, 0, a:a + 2, :] += 50
        elif y[i] == 2:
            imgs[i, 0, :, b:b + 2] -= 60
        elif y[i] == 3:
            imgs[i, 0, a:a + 9, b:b + 9] *= 0.6
        elif y[i] == 4:
            imgs[i, 0, a:a + 5, b:b + 5] = 0
    return imgs.clamp(0, 255).to(torch.uint8), y


class Patches(Dataset):
    def __init__(self, imgs, y, tf):
        self.imgs, self.y, self.tf = imgs, y, tf

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.tf(self.imgs[i]), self.y[i]


plain = v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.45], [0.15])])
train_tf = v2.Compose([v2.RandomHorizontalFlip(), v2.RandomVerticalFlip(), plain])


def conv(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(True), nn.MaxPool2d(2))


@torch.no_grad()
def peek(net, val_loader):
    """Accuracy on one random validation batch, for the live curve."""
    net.eval()
    x, y = next(iter(val_loader))
    acc = (net(x).argmax(1) == y).float().mean().item()
    net.train()
    return acc


def main():
    torch.manual_seed(5)
    imgs, y = weave(2000, seed=5)
    fit = Subset(Patches(imgs, y, train_tf), range(0, 1536))
    val = Subset(Patches(imgs, y, plain), range(1536, 2000))

    common = dict(batch_size=32, shuffle=True, num_workers=2, drop_last=True)
    train_loader = DataLoader(fit, persistent_workers=True, **common)
    val_loader = DataLoader(val, **common)

    net = nn.Sequential(conv(1, 8), conv(8, 16), conv(16, 32), nn.Flatten(), nn.Linear(32 * 36, len(CLASSES)))
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    loss_fn = nn.CrossEntropyLoss(label_smoothing=0.05)
    ema = None
    for epoch in range(1, EPOCHS + 1):
        t0, run = time.time(), 0.0
        for step, (xb, yb) in enumerate(train_loader):
            loss = loss_fn(net(xb), yb)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            run += loss.item()
            if step % PEEK_EVERY == 0:
                acc = peek(net, val_loader)
                ema = acc if ema is None else 0.8 * ema + 0.2 * acc
        print(f"epoch {epoch:>2} | train loss {run / len(train_loader):.3f} | val acc (ema) {ema:.3f} | {time.time() - t0:.1f}s")


if __name__ == "__main__":
    main()
