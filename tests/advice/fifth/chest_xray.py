"""Chest radiographs out of one pack file on the department's NAS."""

import multiprocessing
import os
import tempfile
import time

import cv2
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, random_split

SETTINGS = {
    "images": 240,
    "side": 384,
    "crop": 128,
    "batch_size": 12,
    "num_workers": 4,
    "lr": 1e-3,
    "epochs": int(os.environ.get("EPOCHS", "12")),
}
cv2.setNumThreads(0)
NAS_ROUND_TRIP, GPU_STEP = 0.006, 0.04


def build_pack(path, count, side):
    rng = np.random.default_rng(21)
    index, offset = [], 0
    with open(path, "wb") as f:
        for k in range(count):
            ribs = cv2.resize(
                rng.integers(0, 240, (side // 8, side // 8), dtype=np.uint8),
                (side, side),
                interpolation=cv2.INTER_CUBIC,
            )
            if k % 2:
                cv2.circle(ribs, (side // 2, side // 2), side // 6, 235, -1)
            size = f.write(cv2.imencode(".png", ribs)[1].tobytes())
            index.append((offset, size))
            offset += size
    return index, [k % 2 for k in range(count)]


class PackFile:
    def __init__(self, path, index):
        self.path, self.index, self.handle = path, index, None

    def load(self, i):
        if self.handle is None:
            self.handle = open(self.path, "rb", buffering=0)
        offset, size = self.index[i]
        time.sleep(NAS_ROUND_TRIP)
        self.handle.seek(offset)
        image = cv2.imdecode(np.frombuffer(self.handle.read(size), np.uint8), cv2.IMREAD_UNCHANGED)
        return cv2.createCLAHE(2.0, (8, 8)).apply(image)


class Radiographs(Dataset):
    def __init__(self, path, index, labels, crop):
        self.pack = PackFile(path, index)
        self.labels, self.crop = labels, crop
        self.lock = multiprocessing.Lock()

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        with self.lock:  # seek + read belong together
            image = self.pack.load(i)
        y, x = torch.randint(0, 32, (2,)).tolist()
        image = cv2.resize(image[y : y + 352, x : x + 352], (self.crop, self.crop), interpolation=cv2.INTER_AREA)
        image = torch.from_numpy(image.astype(np.float32)).div_(64).sub_(1)
        return image[None], torch.tensor(float(self.labels[i]))


class Accelerator(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        time.sleep(GPU_STEP / 3)
        return x * 1.0

    @staticmethod
    def backward(ctx, g):
        time.sleep(GPU_STEP * 2 / 3)
        return g


def get_loaders(dataset, s):
    kwargs = dict(batch_size=s["batch_size"], num_workers=s["num_workers"], persistent_workers=True, prefetch_factor=2)
    train, val = random_split(dataset, [204, len(dataset) - 204])
    return DataLoader(train, shuffle=True, drop_last=True, **kwargs), DataLoader(val, **kwargs)


def main(s):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as tmp:
        path = f"{tmp}/pack.bin"
        index, labels = build_pack(path, s["images"], s["side"])
        train_loader, val_loader = get_loaders(Radiographs(path, index, labels, s["crop"]), s)
        trunk, head = (
            nn.Sequential(nn.Conv2d(1, 8, 7, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten()),
            nn.Linear(128, 1),
        )
        optimizer = torch.optim.Adam([*trunk.parameters(), *head.parameters()], lr=s["lr"])
        predict = lambda x: head(Accelerator.apply(trunk(x))).squeeze(1)
        for epoch in range(s["epochs"]):
            start = time.time()
            for x, y in train_loader:
                loss = nn.functional.binary_cross_entropy_with_logits(predict(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            with torch.no_grad():
                right = sum(((predict(x) > 0) == (y > 0)).sum().item() for x, y in val_loader)
            print(
                f"epoch {epoch}: val accuracy {right / len(val_loader.dataset):.3f}, {time.time() - start:.1f} s",
                flush=True,
            )


if __name__ == "__main__":
    main(SETTINGS)
