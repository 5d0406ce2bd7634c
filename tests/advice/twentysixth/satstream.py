"""Land-use classification from a tile stream (webdataset shards with optical, radar and mask layers)."""
import argparse
import io
import json
import tarfile
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import webdataset as wds
from PIL import Image
from torchvision.transforms import v2

SHARDS = Path(__file__).parent / "data" / "satstream"
USES = 6


def encode(img, fmt, **kw):
    buf = io.BytesIO()
    img.save(buf, fmt, **kw)
    return buf.getvalue()


def add(tar, name, blob):
    info = tarfile.TarInfo(name)
    info.size = len(blob)
    tar.addfile(info, io.BytesIO(blob))


def write_shards(root, shards=6, per_shard=80, side=128, big=352):
    root.mkdir(parents=True, exist_ok=True)
    for s in range(shards):
        path = root / f"tiles-{s:03d}.tar"
        if path.exists():
            continue
        rng = np.random.default_rng([99, s])
        with tarfile.open(path.with_suffix(".tmp"), "w") as tar:
            for i in range(per_shard):
                use = int(rng.integers(USES))
                yy, xx = np.mgrid[:side, :side]
                freq = 0.08 + 0.06 * use
                field = np.sin(freq * (xx * rng.uniform(0.6, 1) + yy * rng.uniform(0, 0.6)) + rng.uniform(0, 6))
                rgb = 110 + 35 * field[..., None] * rng.uniform(0.5, 1, 3) + rng.normal(0, 22, (side, side, 3))
                rgb = Image.fromarray(np.clip(rgb, 0, 255).astype(np.uint8))
                sar = np.minimum(rng.standard_exponential((big, big, 3), np.float32) * 60, 255).astype(np.uint8) & 0xF0
                mask = (rng.random((big // 8, big // 8)) < 0.3).astype(np.uint8).repeat(8, 0).repeat(8, 1) * 255
                key = f"tile{s:03d}_{i:04d}"
                add(tar, f"{key}.rgb.jpg", encode(rgb, "JPEG", quality=90))
                add(tar, f"{key}.sar.png", encode(Image.fromarray(sar), "PNG", compress_level=1))
                add(tar, f"{key}.mask.png", encode(Image.fromarray(mask), "PNG"))
                add(tar, f"{key}.meta.json", json.dumps({"use": use, "zone": int(rng.integers(60))}).encode())
        path.with_suffix(".tmp").rename(path)
    return sorted(str(p) for p in root.glob("*.tar"))


def make_pipeline(urls, batch_size, augment):
    to_tensor = v2.Compose([
        v2.RandomCrop(112),
        v2.RandomHorizontalFlip(),
        v2.RandomVerticalFlip(),
        v2.PILToTensor(),
    ]) if augment else v2.Compose([v2.CenterCrop(112), v2.PILToTensor()])

    def to_pair(sample):
        return to_tensor(sample["rgb.jpg"]), sample["meta.json"]["use"]

    return (
        wds.WebDataset(urls, shardshuffle=len(urls) if augment else False, seed=17,
                       nodesplitter=wds.split_by_node, workersplitter=wds.split_by_worker)
        .shuffle(150 if augment else 0, seed=17)
        .decode("pil")
        .map(to_pair)
        .batched(batch_size, partial=not augment)
    )


class TileNet(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        layers, cin = [], 3
        for cout in (width, 2 * width, 3 * width, 4 * width):
            layers += [nn.Conv2d(cin, cout, 3, stride=2, padding=1, bias=False),
                       nn.BatchNorm2d(cout), nn.ReLU(inplace=True)]
            cin = cout
        self.features = nn.Sequential(*layers)
        self.classify = nn.Linear(cin, USES)

    def forward(self, x):
        x = x.float().div(255).sub(0.45).div(0.2)
        return self.classify(self.features(x).mean(dim=(2, 3)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=20)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--lr", type=float, default=1.5e-3)
    args = parser.parse_args()

    torch.manual_seed(17)
    urls = write_shards(SHARDS)
    train = wds.WebLoader(make_pipeline(urls[:-1], args.batch_size, True), batch_size=None,
                          num_workers=args.workers, persistent_workers=args.workers > 0)
    held = wds.WebLoader(make_pipeline(urls[-1:], args.batch_size, False), batch_size=None, num_workers=0)

    model = TileNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.02)
    for epoch in range(args.epochs):
        model.train()
        losses = []
        for images, uses in train:
            loss = nn.functional.cross_entropy(model(images), torch.as_tensor(uses))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        line = f"epoch {epoch}: loss {np.mean(losses):.4f}"
        if epoch == args.epochs - 1:
            model.eval()
            with torch.inference_mode():
                hits = [(model(x).argmax(1) == torch.as_tensor(y)).float().mean().item() for x, y in held]
            line += f" held-out acc {np.mean(hits):.3f}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
