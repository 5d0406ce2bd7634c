"""Histopathology patch classifier trained from WebDataset shards with stain augmentation."""
import io
import os
import tarfile
import time
from pathlib import Path

import cv2
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import webdataset as wds

cv2.setNumThreads(1)
ROOT = Path(__file__).resolve().parent / "data" / "histo_wds"
N_SHARDS, PER_SHARD, SIZE, CROP = 8, 128, 320, 96
EPOCHS = int(os.environ.get("EPOCHS", 6))
BATCH, WORKERS = 32, 2


def write_shards():
    ROOT.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    for s in range(N_SHARDS):
        path = ROOT / f"patches-{s:03d}.tar"
        if path.exists():
            continue
        tmp = path.with_suffix(".part")
        with tarfile.open(tmp, "w") as tar:
            for i in range(PER_SHARD):
                label = int(rng.integers(0, 2))
                img = np.full((SIZE, SIZE, 3), (215, 180, 225), np.uint8)
                for _ in range(70 + 60 * label):
                    c = tuple(int(v) for v in rng.integers(0, SIZE, 2))
                    r = int(rng.integers(4, 9 + 3 * label))
                    cv2.circle(img, c, r, tuple(int(v) for v in rng.integers((90, 30, 70), (160, 90, 140))), -1)
                noise = rng.integers(0, 20, img.shape, dtype=np.uint8)
                ok, buf = cv2.imencode(".jpg", cv2.subtract(img, noise), [cv2.IMWRITE_JPEG_QUALITY, 92])
                key = f"{s:03d}_{i:05d}"
                for ext, blob in (("jpg", buf.tobytes()), ("cls", str(label).encode())):
                    info = tarfile.TarInfo(f"{key}.{ext}")
                    info.size = len(blob)
                    tar.addfile(info, io.BytesIO(blob))
        tmp.rename(path)


HE = np.array([[0.65, 0.70, 0.29], [0.07, 0.99, 0.11], [0.27, 0.57, 0.78]], np.float32)
HE /= np.linalg.norm(HE, axis=1, keepdims=True)
HE_INV = np.linalg.inv(HE).astype(np.float32)


def stain_jitter(rgb, rng):
    """Perturb haematoxylin / eosin concentrations in optical density space."""
    od = -cv2.log((rgb.astype(np.float32) + 1.0) / 256.0)
    conc = od.reshape(-1, 3) @ HE_INV
    conc *= rng.uniform(0.85, 1.15, 3).astype(np.float32)
    conc += rng.uniform(-0.04, 0.04, 3).astype(np.float32)
    out = cv2.exp(-(conc @ HE)).reshape(rgb.shape)
    return np.clip(out, 0, 1)


def to_example(sample):
    rng = np.random.default_rng(torch.randint(0, 2 ** 31, ()).item())
    img = cv2.imdecode(np.frombuffer(sample["jpg"], np.uint8), cv2.IMREAD_COLOR)
    img = stain_jitter(cv2.cvtColor(img, cv2.COLOR_BGR2RGB), rng)
    m = cv2.getRotationMatrix2D((SIZE / 2, SIZE / 2), float(rng.uniform(0, 360)), float(rng.uniform(0.8, 1.1)))
    img = cv2.warpAffine(img, m, (SIZE, SIZE), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT)
    img = cv2.resize(img[32:-32, 32:-32], (CROP, CROP), interpolation=cv2.INTER_AREA)
    return torch.from_numpy(img).permute(2, 0, 1) - 0.5, int(sample["cls"])


def make_loader():
    urls = [str(p) for p in sorted(ROOT.glob("patches-*.tar"))]
    pipeline = wds.DataPipeline(
        wds.SimpleShardList(urls),
        wds.tarfile_to_samples(),
        wds.map(to_example),
        wds.split_by_worker,
        wds.shuffle(200),
        wds.batched(BATCH, partial=False),
    )
    return wds.WebLoader(pipeline, batch_size=None, num_workers=WORKERS, persistent_workers=True)


class SmallNet(nn.Module):
    def __init__(self):
        super().__init__()
        layers, c = [], 3
        for o in (16, 32, 48, 64):
            layers += [nn.Conv2d(c, o, 3, 2, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True)]
            c = o
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(c, 2)

    def forward(self, x):
        return self.head(self.features(x).mean((2, 3)))


def main():
    torch.manual_seed(1)
    write_shards()
    loader = make_loader()
    net = SmallNet()
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for epoch in range(EPOCHS):
        t0, n, correct, total = time.time(), 0, 0, 0.0
        for x, y in loader:
            out = net(x)
            loss = F.cross_entropy(out, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            n += len(y)
            correct += (out.argmax(1) == y).sum().item()
            total += loss.item() * len(y)
        print(f"epoch {epoch}  patches {n}  loss {total / n:.4f}  acc {correct / n:.3f}  {time.time() - t0:.1f}s", flush=True)


if __name__ == "__main__":
    main()
