"""Denoising of electron micrographs with a small U-Net, trained on tar shards."""
import argparse
import glob
import io
import os
import tarfile
import time

import cv2
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import webdataset as wds

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "micrograph_denoise")
SHARDS, PER_SHARD, SIDE = 6, 48, 128


def draw_patch(rng):
    grain = cv2.resize(rng.uniform(0.3, 0.7, (10, 10)).astype(np.float32), (SIDE, SIDE), interpolation=cv2.INTER_CUBIC)
    for _ in range(rng.integers(4, 14)):
        centre = tuple(int(v) for v in rng.integers(0, SIDE, 2))
        cv2.circle(grain, centre, int(rng.integers(4, 18)), float(rng.uniform(0.1, 0.95)), int(rng.choice([-1, 2])))
    return (cv2.GaussianBlur(grain, (0, 0), 1.0).clip(0, 1) * 255).astype(np.uint8)


def make_data():
    if os.path.exists(os.path.join(ROOT, "done")):
        return
    os.makedirs(ROOT, exist_ok=True)
    rng = np.random.default_rng(4)
    for shard in range(SHARDS):
        with tarfile.open(os.path.join(ROOT, f"patches-{shard:03d}.tar"), "w") as tar:
            for n in range(PER_SHARD):
                payload = cv2.imencode(".png", draw_patch(rng))[1].tobytes()
                info = tarfile.TarInfo(f"{shard:03d}_{n:04d}.png")
                info.size = len(payload)
                tar.addfile(info, io.BytesIO(payload))
    open(os.path.join(ROOT, "done"), "w").close()


def decode(payload):
    patch = cv2.imdecode(np.frombuffer(payload, np.uint8), cv2.IMREAD_GRAYSCALE)
    return torch.from_numpy(patch).unsqueeze(0).float().div_(255)


def add_noise(clean):
    return torch.poisson(clean * 12) / 12 + 0.05 * torch.randn_like(clean), clean


def make_loader(shards, batch_size, training):
    dataset = wds.WebDataset(shards, shardshuffle=len(shards) if training else False, seed=6)
    if training:
        dataset = dataset.shuffle(96, seed=6)
    dataset = dataset.to_tuple("png").map_tuple(decode).batched(batch_size, partial=False)
    return wds.WebLoader(dataset, batch_size=None, num_workers=1)


def double_conv(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.ReLU(inplace=True),
                         nn.Conv2d(b, b, 3, padding=1), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.enter = double_conv(1, width)
        self.down1 = double_conv(width, width * 2)
        self.down2 = double_conv(width * 2, width * 4)
        self.up1 = double_conv(width * 6, width * 2)
        self.up2 = double_conv(width * 3, width)
        self.out = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        a = self.enter(x)
        b = self.down1(F.max_pool2d(a, 2))
        c = self.down2(F.max_pool2d(b, 2))
        b = self.up1(torch.cat([b, F.interpolate(c, scale_factor=2)], 1))
        a = self.up2(torch.cat([a, F.interpolate(b, scale_factor=2)], 1))
        return x + self.out(a)


@torch.no_grad()
def validate(model, loader):
    model.eval()
    errors = []
    for (clean,) in loader:
        noisy, clean = add_noise(clean)
        errors.append(F.mse_loss(model(noisy), clean).item())
    return -10 * np.log10(np.mean(errors))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--make", action="store_true")
    args = parser.parse_args()
    make_data()
    if args.make:
        return

    torch.manual_seed(6)
    shards = sorted(glob.glob(os.path.join(ROOT, "patches-*.tar")))
    train_loader = make_loader(shards[:-1], args.batch_size, training=True)
    valid_loader = make_loader(shards[-1:], args.batch_size, training=False)
    model = UNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    best = -np.inf
    for epoch in range(1, args.epochs + 1):
        start, losses = time.time(), []
        model.train()
        for (clean,) in train_loader:
            noisy, clean = add_noise(clean)
            loss = F.l1_loss(model(noisy), clean)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        psnr = validate(model, valid_loader)
        if psnr > best:
            best = psnr
            torch.save({"model": model.state_dict(), "epoch": epoch, "psnr": psnr}, os.path.join(ROOT, "best.pt"))
        print(f"epoch {epoch}: loss {np.mean(losses):.5f} psnr {psnr:.2f} dB ({time.time() - start:.1f} s)")


if __name__ == "__main__":
    main()
