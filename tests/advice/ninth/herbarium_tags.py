"""Family classifier for digitised herbarium sheets, streamed from WebDataset shards."""
import io
import json
import os
import random
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import webdataset as wds
from PIL import Image, ImageFilter
from torch.utils.data import DataLoader

EPOCHS = int(os.environ.get("EPOCHS", 3))
torch.set_num_threads(1)
N_SHARDS, PER_SHARD = 4, 320
FAMILIES = ["Poaceae", "Rosaceae", "Fabaceae", "Asteraceae", "Orchidaceae"]
BATCH = 32


def _encode(img, fmt, **kw):
    buf = io.BytesIO()
    img.save(buf, fmt, **kw)
    return buf.getvalue()


def draw_sheet(rng, family):
    """Fake sheet: paper texture + a few leaf blobs whose hue depends on the family."""
    paper = rng.normal(215, 6, (400, 290, 3))
    yy, xx = np.mgrid[:400, :290]
    for _ in range(4 + family):
        cy, cx = rng.integers(60, 340), rng.integers(50, 240)
        a, b = rng.integers(14, 50), rng.integers(8, 24)
        mask = ((yy - cy) / a) ** 2 + ((xx - cx) / b) ** 2 < 1
        paper[mask] = np.array([60 + 22 * family, 120 - 10 * family, 40]) + rng.normal(0, 9, 3)
    return Image.fromarray(paper.clip(0, 255).astype(np.uint8))


def write_shards(root):
    rng = np.random.default_rng(11)
    pool = []
    for i in range(60):
        fam = i % len(FAMILIES)
        sheet = draw_sheet(rng, fam)
        pool.append((
            fam,
            _encode(sheet, "PNG", compress_level=1),
            _encode(sheet.resize((64, 64)).filter(ImageFilter.SHARPEN), "JPEG", quality=92),
        ))
    for s in range(N_SHARDS):
        with wds.TarWriter(str(root / f"sheets-{s:03d}.tar")) as sink:
            for j in range(PER_SHARD):
                fam, scan, thumb = pool[int(rng.integers(len(pool)))]
                sink.write({
                    "__key__": f"K{s:03d}{j:05d}",
                    "scan.png": scan,
                    "thumb.jpg": thumb,
                    "label.json": json.dumps({"family": FAMILIES[fam], "id": fam}).encode(),
                })


def pick(sample):
    thumb, label = sample
    x = thumb.float().sub_(128.0).div_(64.0)
    if torch.rand(()) < 0.5:
        x = x.flip(-1)
    return x, label["id"]


def make_pipeline(root):
    urls = sorted(str(p) for p in root.glob("sheets-*.tar"))
    return (
        wds.WebDataset(urls, shardshuffle=False)
        .shuffle(200, rng=random.Random(7))
        .decode("torchrgb8")
        .to_tuple("thumb.jpg", "label.json")
        .map(pick)
        .batched(BATCH)
    )


class Net(nn.Module):
    def __init__(self, n):
        super().__init__()
        def block(i, o):
            return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(), nn.MaxPool2d(2))
        self.f = nn.Sequential(block(3, 8), block(8, 16), block(16, 32), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(32, n)

    def forward(self, x):
        return self.head(self.f(x))


def main():
    torch.manual_seed(3)
    root = Path(tempfile.mkdtemp(prefix="herb_"))
    try:
        write_shards(root)
        loader = DataLoader(make_pipeline(root), batch_size=None, num_workers=2)
        net = Net(len(FAMILIES))
        opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
        for epoch in range(EPOCHS):
            t0, hits, seen, total = time.time(), 0, 0, 0.0
            for x, y in loader:
                y = torch.as_tensor(y)
                out = net(x)
                loss = nn.functional.cross_entropy(out, y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                hits += (out.argmax(1) == y).sum().item()
                total += loss.item() * len(y)
                seen += len(y)
            print(f"[{epoch}] loss {total / seen:.3f}  acc {hits / seen:.3f}  {seen} sheets  {time.time() - t0:.1f}s")
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
