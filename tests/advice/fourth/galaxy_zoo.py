import os
import sys
import time

import numpy as np
import torch
import torch.nn as nn
from PIL import Image
from torch.utils.data import DataLoader
from torchvision import transforms as T
from torchvision.datasets import ImageFolder

ROOT = (
    sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.environ.get("DATA_DIR", "/tmp/pipebench-fourth"), "galaxies")
)


def synth():
    rng = np.random.default_rng(1)
    for c in ("spiral", "elliptical"):
        os.makedirs(f"{ROOT}/{c}", exist_ok=True)
        for i in range(440):
            p = f"{ROOT}/{c}/{i:04d}.jpg"
            if not os.path.exists(p):
                a = rng.integers(0, 255, (6, 6, 3), dtype=np.uint8)
                Image.fromarray(a).resize((80, 80), Image.BICUBIC).save(p)


class OnDevice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        time.sleep(0.040)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        time.sleep(0.060)
        return g


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Conv2d(3, 6, 5, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 2))

    def forward(self, x):
        return OnDevice.apply(self.f(x))


if __name__ == "__main__":
    synth()
    torch.set_num_threads(1)
    tf = T.Compose([T.RandomResizedCrop(64), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize([0.5] * 3, [0.2] * 3)])
    train = DataLoader(ImageFolder(ROOT, tf), batch_size=8, shuffle=True, num_workers=1)
    net = Classifier()
    opt = torch.optim.SGD(net.parameters(), lr=1e-2)
    for epoch in range(int(os.environ.get("EPOCHS", 2))):
        correct = seen = 0
        for x, y in train:
            out = net(x)
            loss = nn.functional.cross_entropy(out, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            correct += (out.argmax(1) == y).sum().item()
            seen += len(y)
        print(f"[{epoch}] acc {correct / seen:.3f}", flush=True)
