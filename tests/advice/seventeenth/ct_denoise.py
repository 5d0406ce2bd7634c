"""Remove quantum noise from low-dose CT slices with a small residual U-Net."""
import os

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 6))
SLICES, SIZE = 96, 192
PATCH = 64
PATCHES_PER_SLICE = 5
BATCH = 16


def make_slices(count, seed):
    """Ellipse phantoms."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[-1:1:SIZE * 1j, -1:1:SIZE * 1j].astype(np.float32)
    slices = np.zeros((count, SIZE, SIZE), dtype=np.float32)
    for image in slices:
        for _ in range(10):
            cx, cy = rng.uniform(-0.6, 0.6, 2)
            a, b = rng.uniform(0.08, 0.5, 2)
            image += rng.uniform(0.05, 0.3) * (((x - cx) / a) ** 2 + ((y - cy) / b) ** 2 < 1)
    return np.clip(slices, 0, 1)


class NoisyPatches(Dataset):
    def __init__(self, slices, sigma=0.08):
        self.slices = torch.from_numpy(slices)
        self.sigma = sigma

    def __len__(self):
        return len(self.slices) * PATCHES_PER_SLICE

    def __getitem__(self, index):
        image = self.slices[index // PATCHES_PER_SLICE]
        top, left = torch.randint(SIZE - PATCH, (2,)).tolist()
        clean = image[None, top:top + PATCH, left:left + PATCH]
        if torch.rand(()) < 0.5:
            clean = clean.flip(2)
        noisy = clean + self.sigma * torch.randn_like(clean) * (0.5 + clean)
        return noisy, clean


def pair(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.ReLU(), nn.Conv2d(b, b, 3, padding=1), nn.ReLU())


class ResidualUNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.first = pair(1, width)
        self.second = pair(width, 2 * width)
        self.bottom = pair(2 * width, 4 * width)
        self.up_second = pair(6 * width, 2 * width)
        self.up_first = pair(3 * width, width)
        self.out = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        a = self.first(x)
        b = self.second(nn.functional.max_pool2d(a, 2))
        c = self.bottom(nn.functional.max_pool2d(b, 2))
        c = nn.functional.interpolate(c, scale_factor=2)
        b = self.up_second(torch.cat([b, c], 1))
        b = nn.functional.interpolate(b, scale_factor=2)
        return x - self.out(self.up_first(torch.cat([a, b], 1)))


@torch.inference_mode()
def evaluate(model, noisy, clean):
    model.eval()
    error = sum(nn.functional.mse_loss(model(n), c, reduction="sum").item()
                for n, c in zip(noisy.split(BATCH), clean.split(BATCH)))
    return -10 * np.log10(error / clean.numel())


def main():
    torch.manual_seed(0)
    train_set = NoisyPatches(make_slices(SLICES, seed=1))
    val_set = NoisyPatches(make_slices(8, seed=2))
    noisy, clean = (torch.stack(part) for part in zip(*(val_set[i] for i in range(len(val_set)))))
    loader = DataLoader(
        train_set,
        batch_size=BATCH,
        shuffle=True,
        drop_last=True,
        num_workers=1,
        prefetch_factor=4,
        persistent_workers=True,
    )
    model = ResidualUNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(EPOCHS):
        model.train()
        total = torch.zeros(())
        for x, y in loader:
            optimizer.zero_grad(set_to_none=True)
            loss = nn.functional.l1_loss(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.detach()
        print(f"epoch {epoch}: l1 {total.item() / len(loader):.5f} "
              f"val psnr {evaluate(model, noisy, clean):.2f} dB", flush=True)


if __name__ == "__main__":
    main()
