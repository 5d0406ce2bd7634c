"""Crop type from satellite tiles, streamed from WebDataset shards.

Tiles under heavy cloud are of no use for training and are left out.
"""
import json
import os
import shutil
import sys
from pathlib import Path

import cv2
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import webdataset as wds

CROPS = ("wheat", "maize", "rapeseed", "fallow")
MAX_CLOUD = 0.12
TILE = 640
CHIP = 96


class cfg:
    epochs = int(os.environ.get("EPOCHS", 10))
    shards = 8
    per_shard = 200
    bs = 32
    lr = 1e-3
    workers = 2
    root = Path(__file__).parent / "data" / "crop_tiles"


def make_tile(rng, crop, grain):
    field = cv2.resize(rng.integers(0, 190, (24, 24, 3)).astype(np.uint8), (TILE, TILE),
                       interpolation=cv2.INTER_CUBIC)
    rows = (np.sin(np.arange(TILE) / (2.5 + 2 * crop)) * 20 + 20).astype(np.uint8)
    img = cv2.add(field, np.broadcast_to(rows[:, None, None], field.shape).copy())
    img[..., crop % 3] += 20
    return cv2.add(img, grain[rng.integers(len(grain))])


def write_shards(root):
    if root.is_dir():
        return
    part = root.parent / f".{root.name}-{os.getpid()}"
    part.mkdir(parents=True)
    rng = np.random.default_rng(5)
    grain = rng.integers(0, 18, (16, TILE, TILE, 3), dtype=np.uint8)
    for s in range(cfg.shards):
        with wds.TarWriter(str(part / f"tiles-{s:03d}.tar")) as sink:
            for k in range(cfg.per_shard):
                crop = int(rng.integers(len(CROPS)))
                ok, jpg = cv2.imencode(".jpg", make_tile(rng, crop, grain), [cv2.IMWRITE_JPEG_QUALITY, 92])
                meta = {"crop": CROPS[crop], "cloud_cover": float(rng.beta(0.8, 0.9)), "epsg": 32633}
                sink.write({"__key__": f"{s:03d}_{k:05d}", "jpg": jpg.tobytes(),
                            "json": json.dumps(meta).encode()})
    try:
        part.rename(root)
    except OSError:
        shutil.rmtree(part)


def is_clear(sample):
    return sample["json"]["cloud_cover"] <= MAX_CLOUD


def to_chip(pair):
    tile, meta = pair
    k = int(torch.randint(4, (1,)))
    small = cv2.resize(np.rot90(tile, k), (CHIP, CHIP), interpolation=cv2.INTER_AREA)
    chip = torch.from_numpy(small).permute(2, 0, 1)
    return chip, CROPS.index(meta["crop"])


def collate(samples):
    chips, labels = zip(*samples)
    return torch.stack(chips), torch.tensor(labels)


def build_stream(urls):
    ds = (
        wds.WebDataset(urls, shardshuffle=len(urls), empty_check=False)
        .shuffle(200)
        .decode("rgb8")
        .select(is_clear)
        .to_tuple("jpg", "json")
        .map(to_chip)
        .batched(cfg.bs, collation_fn=collate)
    )
    return wds.WebLoader(ds, batch_size=None, num_workers=cfg.workers, persistent_workers=True)


def block(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1, stride=2), nn.BatchNorm2d(cout), nn.ReLU(True))


def main():
    torch.manual_seed(0)
    write_shards(cfg.root)
    urls = sorted(str(p) for p in cfg.root.glob("*.tar"))
    stream = build_stream(urls)
    model = nn.Sequential(block(3, 24), block(24, 48), block(48, 96), nn.AdaptiveAvgPool2d(1),
                          nn.Flatten(), nn.Linear(96, len(CROPS)))
    optim = torch.optim.Adam(model.parameters(), cfg.lr)
    for ep in range(1, cfg.epochs + 1):
        n = correct = 0
        for chips, target in stream:
            x = chips.float().div_(127.5).sub_(1)
            logits = model(x)
            loss = F.cross_entropy(logits, target)
            optim.zero_grad(set_to_none=True)
            loss.backward()
            optim.step()
            n += len(target)
            correct += (logits.argmax(1) == target).sum().item()
        print(f"[{ep}/{cfg.epochs}] tiles {n}  acc {correct / max(n, 1):.3f}")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
