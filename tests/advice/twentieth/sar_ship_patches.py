"""Ship / no-ship segmentation on chips cut out of Sentinel-1 like GRD scenes."""
import os
import tempfile
import time
from functools import lru_cache

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 4))
ROOT = os.path.join(os.environ.get("DATA_DIR", tempfile.gettempdir()), "sar_ship_patches")
N_SCENES = 24
SCENE = 1024
CHIP = 96
CHIPS_PER_SCENE = 24
BATCH = 16


def build_archive():
    if os.path.exists(os.path.join(ROOT, "index.npy")):
        return
    os.makedirs(ROOT, exist_ok=True)
    rng = np.random.default_rng(11)
    index = []
    for s in range(N_SCENES):
        vv = rng.gamma(4.0, 30.0, (SCENE, SCENE)).astype(np.uint16)
        mask = np.zeros((SCENE, SCENE), np.uint8)
        for y, x in rng.integers(16, SCENE - 16, (70, 2)):
            h, w = rng.integers(3, 10, 2)
            vv[y:y + h, x:x + w] += 300
            mask[y:y + h, x:x + w] = 1
        vh = (vv // 3 + rng.integers(0, 12, vv.shape)).astype(np.uint16)
        np.savez_compressed(os.path.join(ROOT, f"S1_{s:03d}.npz"), bands=np.stack([vv, vh]), mask=mask)
        corners = rng.integers(0, SCENE - CHIP, (CHIPS_PER_SCENE, 2))
        index.extend((s, y, x) for y, x in corners)
    np.save(os.path.join(ROOT, "index.npy"), np.array(index, np.int32))


@lru_cache(maxsize=2)
def open_scene(scene_id):
    with np.load(os.path.join(ROOT, f"S1_{scene_id:03d}.npz")) as archive:
        return archive["bands"], archive["mask"]


class ChipDataset(Dataset):
    def __init__(self):
        self.index = np.load(os.path.join(ROOT, "index.npy"))

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        scene_id, y, x = (int(v) for v in self.index[i])
        bands, mask = open_scene(scene_id)
        chip = bands[:, y:y + CHIP, x:x + CHIP].astype(np.float32)
        chip = 10.0 * np.log10(chip + 1.0) - 20.0
        target = mask[y:y + CHIP, x:x + CHIP].astype(np.float32)
        return torch.from_numpy(chip / 5.0), torch.from_numpy(target)[None]


def block(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.ReLU(inplace=True)
    )


class MiniUNet(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.enc1 = block(2, width)
        self.enc2 = block(width, width * 2)
        self.mid = block(width * 2, width * 2)
        self.dec = block(width * 3, width)
        self.head = nn.Conv2d(width, 1, 1)
        self.pool = nn.MaxPool2d(2)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")

    def forward(self, x):
        a = self.enc1(x)
        b = self.mid(self.enc2(self.pool(a)))
        return self.head(self.dec(torch.cat([a, self.up(b)], 1)))


def main():
    torch.manual_seed(0)
    build_archive()
    loader = DataLoader(
        ChipDataset(),
        batch_size=BATCH,
        shuffle=True,
        num_workers=2,
        drop_last=True,
        persistent_workers=True,
    )
    model = MiniUNet()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    loss_fn = nn.BCEWithLogitsLoss(pos_weight=torch.tensor([8.0]))
    for epoch in range(EPOCHS):
        started = time.time()
        total = torch.zeros(())
        for chips, targets in loader:
            opt.zero_grad(set_to_none=True)
            loss = loss_fn(model(chips), targets)
            loss.backward()
            opt.step()
            total += loss.detach()
        print(f"epoch {epoch} loss {total.item() / len(loader):.4f} ({time.time() - started:.1f}s)", flush=True)


if __name__ == "__main__":
    main()
