"""Soil moisture regression from multi-band radar tiles kept in compressed blocks."""
import os
import tempfile
import time
import zlib
from collections import OrderedDict

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 6))
ROOT = os.path.join(os.environ.get("DATA_DIR", tempfile.gettempdir()), "soil_moisture")
BLOCKS, TILES_PER_BLOCK = 20, 96
BANDS, SIDE = 8, 32


def make_blocks():
    os.makedirs(ROOT, exist_ok=True)
    if os.path.exists(os.path.join(ROOT, "done")):
        return
    rng = np.random.default_rng(17)
    targets = np.zeros((BLOCKS, TILES_PER_BLOCK), np.float32)
    yy, xx = np.mgrid[:SIDE, :SIDE] / SIDE
    for block in range(BLOCKS):
        wetness = rng.uniform(0.05, 0.6, TILES_PER_BLOCK)
        slope = rng.uniform(-1, 1, (TILES_PER_BLOCK, BANDS, 1, 1))
        tiles = 2000 + 9000 * wetness[:, None, None, None] + 1500 * slope * xx + 800 * yy
        tiles = tiles + rng.integers(0, 64, (TILES_PER_BLOCK, BANDS, SIDE, SIDE))
        with open(os.path.join(ROOT, f"block_{block:03d}.z"), "wb") as f:
            f.write(zlib.compress(tiles.astype(np.uint16).tobytes(), 4))
        targets[block] = wetness
    np.save(os.path.join(ROOT, "targets.npy"), targets)
    open(os.path.join(ROOT, "done"), "w").close()


class BlockStore:
    """Keeps the most recently used blocks unpacked."""

    def __init__(self, root, keep=2):
        self.root = root
        self.keep = keep
        self.unpacked = OrderedDict()

    def block(self, number):
        if number in self.unpacked:
            self.unpacked.move_to_end(number)
            return self.unpacked[number]
        with open(os.path.join(self.root, f"block_{number:03d}.z"), "rb") as f:
            raw = zlib.decompress(f.read())
        tiles = np.frombuffer(raw, np.uint16).reshape(TILES_PER_BLOCK, BANDS, SIDE, SIDE)
        self.unpacked[number] = tiles
        while len(self.unpacked) > self.keep:
            self.unpacked.popitem(last=False)
        return tiles


class MoistureTiles(Dataset):
    def __init__(self, root):
        self.store = BlockStore(root)
        self.targets = np.load(os.path.join(root, "targets.npy")).reshape(-1)

    def __len__(self):
        return BLOCKS * TILES_PER_BLOCK

    def __getitem__(self, index):
        number, offset = divmod(index, TILES_PER_BLOCK)
        tile = self.store.block(number)[offset].astype(np.float32) / 10000
        if torch.rand(1) < 0.5:
            tile = tile[:, :, ::-1]
        tile = np.rot90(tile, int(torch.randint(4, (1,))), axes=(1, 2))
        return torch.from_numpy(tile.copy()), torch.tensor(self.targets[index])


class MoistureNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(BANDS, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(),
        )
        self.out = nn.Linear(32, 1)

    def forward(self, x):
        return self.out(self.body(x).mean(dim=(2, 3))).squeeze(1)


def main():
    torch.manual_seed(0)
    make_blocks()
    dataset = MoistureTiles(ROOT)
    loader = DataLoader(dataset, batch_size=32, shuffle=True, num_workers=2, persistent_workers=True,
                        prefetch_factor=4)
    model = MoistureNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(EPOCHS):
        began, squared, count = time.time(), 0.0, 0
        for tiles, moisture in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(tiles), moisture)
            loss.backward()
            optimizer.step()
            squared += loss.item() * len(tiles)
            count += len(tiles)
        print(f"epoch {epoch}: rmse {(squared / count) ** 0.5:.4f} over {count} tiles "
              f"({time.time() - began:.1f}s)", flush=True)


if __name__ == "__main__":
    main()
