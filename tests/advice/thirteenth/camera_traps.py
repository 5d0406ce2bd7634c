"""Species classifier for camera-trap pictures, streamed from tar archives."""
import io
import os
import tarfile
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
from PIL import Image, ImageFilter
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
from torchvision import transforms as T

EPOCHS = int(os.environ.get("EPOCHS", 6))
DATA = os.path.join(os.environ.get("DATA_DIR", tempfile.gettempdir()), "camera_traps")
SPECIES = ["boar", "roe_deer", "fox", "badger", "empty"]
N_TARS, PER_TAR = 4, 160


def synth_picture(rng, label):
    small = rng.integers(30, 200, (15, 20, 3), dtype=np.uint8)
    small[4:10, 4 + 2 * label: 8 + 2 * label] = (40 * label + 40, 90, 200 - 30 * label)
    im = Image.fromarray(small).resize((640, 480), Image.BICUBIC)
    return im


def make_tars():
    os.makedirs(DATA, exist_ok=True)
    rng = np.random.default_rng(0)
    for t in range(N_TARS):
        path = os.path.join(DATA, f"site-{t:02d}.tar")
        if os.path.exists(path):
            continue
        with tarfile.open(path + ".part", "w") as tar:
            for i in range(PER_TAR):
                label = int(rng.integers(len(SPECIES)))
                buf = io.BytesIO()
                synth_picture(rng, label).save(buf, "JPEG", quality=88)
                info = tarfile.TarInfo(f"{SPECIES[label]}/{t:02d}_{i:05d}.jpg")
                info.size = buf.tell()
                buf.seek(0)
                tar.addfile(info, buf)
        os.rename(path + ".part", path)


def members(paths):
    for path in paths:
        with tarfile.open(path, "r|") as tar:
            for info in tar:
                yield info.name, tar.extractfile(info).read()


class TrapStream(IterableDataset):
    def __init__(self, root, transform):
        self.paths = sorted(os.path.join(root, f) for f in os.listdir(root) if f.endswith(".tar"))
        self.transform = transform

    def examples(self):
        for name, blob in members(self.paths):
            img = Image.open(io.BytesIO(blob)).convert("RGB")
            yield self.transform(img), SPECIES.index(name.split("/")[0])

    def __iter__(self):
        info = get_worker_info()
        rank, world = (info.id, info.num_workers) if info else (0, 1)
        for n, example in enumerate(self.examples()):
            if n % world == rank:
                yield example


class Denoise:
    def __call__(self, img):
        return img.filter(ImageFilter.MedianFilter(3))


def make_model():
    def block(i, o):
        return nn.Sequential(nn.Conv2d(i, o, 3, stride=2, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True))
    return nn.Sequential(block(3, 16), block(16, 32), block(32, 64),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, len(SPECIES)))


def main():
    make_tars()
    torch.manual_seed(0)
    transform = T.Compose([
        T.RandomResizedCrop(192, scale=(0.6, 1.0)),
        Denoise(),
        T.RandomHorizontalFlip(),
        T.ToTensor(),
        T.Normalize([0.45] * 3, [0.25] * 3),
    ])
    loader = DataLoader(TrapStream(DATA, transform), batch_size=16, num_workers=2)
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    for epoch in range(EPOCHS):
        t0, running, n = time.time(), 0.0, 0
        for images, targets in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), targets)
            loss.backward()
            optimizer.step()
            running += loss.item()
            n += 1
        print(f"Epoch {epoch}: {n} steps, loss {running / n:.3f}, {time.time() - t0:.1f}s", flush=True)


if __name__ == "__main__":
    main()
