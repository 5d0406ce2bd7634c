"""Parcel sorting: predict the chute class from belt camera pictures kept in webdataset shards."""
import argparse
import io
import json
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torchvision.transforms.v2 as T
import webdataset as wds
from PIL import Image, ImageDraw

ROOT = Path(__file__).resolve().parent / "data" / "parcel_sorting"
SHARDS, PER_SHARD, CLASSES = 8, 250, 6
MEAN, STD = [0.42, 0.40, 0.37], [0.21, 0.20, 0.20]


def make_data():
    ROOT.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(17)
    for s in range(SHARDS):
        with wds.TarWriter(str(ROOT / f"belt-{s:03d}.tar")) as sink:
            for i in range(PER_SHARD):
                label = int(rng.integers(CLASSES))
                noise = rng.integers(70, 120, (60, 80, 3)).astype(np.uint8)
                img = Image.fromarray(noise).resize((640, 480), Image.BICUBIC)
                d = ImageDraw.Draw(img)
                w, h = 160 + 40 * label, 260 - 25 * label
                x, y = int(rng.integers(20, 600 - w)), int(rng.integers(20, 460 - h))
                tone = int(rng.integers(120, 200))
                d.rectangle((x, y, x + w, y + h), fill=(tone, int(tone * 0.8), int(tone * 0.55)), outline=(40, 30, 20))
                d.rectangle((x + 10, y + 10, x + 60, y + 40), fill=(240, 240, 240))
                buf = io.BytesIO()
                img.save(buf, "JPEG", quality=90)
                status = "routed" if rng.random() < 0.3 else str(rng.choice(["no_read", "recirculated", "pending"]))
                meta = {"status": status, "chute": label, "weight_g": int(rng.gamma(3, 400)), "belt": s % 3}
                sink.write({"__key__": f"{s:03d}-{i:05d}", "jpg": buf.getvalue(), "json": json.dumps(meta).encode()})


train_tf = T.Compose([
    T.Resize(144),
    T.RandomCrop(128),
    T.RandomHorizontalFlip(),
    T.ToImage(),
    T.ToDtype(torch.float32, scale=True),
    T.Normalize(MEAN, STD),
])
eval_tf = T.Compose([T.Resize(144), T.CenterCrop(128), T.ToImage(), T.ToDtype(torch.float32, scale=True),
                     T.Normalize(MEAN, STD)])


def is_routed(sample):
    return sample["json"]["status"] == "routed"


def to_example(tf):
    def fn(sample):
        meta = sample["json"]
        return tf(sample["jpg"]), meta["chute"], torch.tensor([meta["weight_g"] / 1000.0])
    return fn


def make_loader(shards, tf, batch_size, train, workers):
    urls = [str(ROOT / f"belt-{s:03d}.tar") for s in shards]
    ds = wds.WebDataset(urls, shardshuffle=len(urls) if train else False, seed=3, empty_check=False)
    ds = ds.decode("pil")
    ds = ds.select(is_routed)
    ds = ds.map(to_example(tf))
    if train:
        ds = ds.shuffle(100)
    ds = ds.batched(batch_size, partial=True)
    return wds.WebLoader(ds, batch_size=None, num_workers=workers, persistent_workers=workers > 0)


class ChuteNet(nn.Module):
    def __init__(self, w=12):
        super().__init__()
        layers, c = [], 3
        for k in (w, 2 * w, 4 * w, 4 * w):
            layers += [nn.Conv2d(c, k, 3, stride=2, padding=1), nn.BatchNorm2d(k), nn.ReLU(inplace=True)]
            c = k
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.fc = nn.Linear(4 * c + 1, CLASSES)

    def forward(self, x, weight):
        return self.fc(torch.cat([self.features(x), weight], 1))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=7)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--make", action="store_true")
    args = ap.parse_args()
    if args.make or not (ROOT / f"belt-{SHARDS - 1:03d}.tar").exists():
        make_data()
        if args.make:
            return
    torch.manual_seed(0)
    train = make_loader(range(SHARDS - 1), train_tf, args.batch_size, True, workers=2)
    val = make_loader([SHARDS - 1], eval_tf, args.batch_size, False, workers=0)
    model = ChuteNet()
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    sched = torch.optim.lr_scheduler.StepLR(opt, 2, 0.5)
    for epoch in range(args.epochs):
        t0 = time.time()
        model.train()
        losses = []
        for img, chute, weight in train:
            loss = nn.functional.cross_entropy(model(img, weight), torch.as_tensor(chute))
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        sched.step()
        model.eval()
        hit = n = 0
        with torch.no_grad():
            for img, chute, weight in val:
                chute = torch.as_tensor(chute)
                hit += (model(img, weight).argmax(1) == chute).sum().item()
                n += len(chute)
        print(f"epoch {epoch} steps {len(losses)} loss {np.mean(losses):.4f} val acc {hit / n:.3f} ({n}) {time.time() - t0:.1f}s", flush=True)


if __name__ == "__main__":
    main()
