"""Value network for Go, trained on positions of finished games (in memory, bit-packed)."""
import os
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

SIZE = 19
POINTS = SIZE * SIZE
EPOCHS = int(os.environ.get("EPOCHS", 6))


def self_play(n_positions, seed):
    """Stand-in for the game archive: black and white stones as packed bit planes."""
    rng = np.random.default_rng(seed)
    owner = rng.random((n_positions, POINTS), dtype=np.float32)
    fill = rng.uniform(0.1, 0.35, (n_positions, 1)).astype(np.float32)
    tilt = rng.normal(0, 0.04, (n_positions, 1)).astype(np.float32)
    black = owner < fill + tilt
    white = owner > 1 - fill + tilt
    winner = np.sign(black.sum(1) - white.sum(1) - 6.5).astype(np.float32)
    planes = np.stack([black, white], axis=1)
    return np.packbits(planes, axis=-1), winner


def symmetry_table():
    base = np.arange(POINTS).reshape(SIZE, SIZE)
    rots = [np.rot90(base, k) for k in range(4)]
    return np.stack([r.ravel() for r in rots] + [np.fliplr(r).ravel() for r in rots])


class Positions(Dataset):
    """Indexed by a whole list of positions; gives a ready batch."""

    def __init__(self, packed, winner, augment):
        self.packed, self.winner, self.augment = packed, winner, augment
        self.table = symmetry_table()

    def __len__(self):
        return len(self.winner)

    def __getitem__(self, idx):
        bits = np.unpackbits(self.packed[idx], axis=-1, count=POINTS)
        if self.augment:
            bits = bits[:, :, self.table[np.random.randint(8)]]
        boards = torch.from_numpy(bits.reshape(len(idx), 2, SIZE, SIZE))
        return boards, torch.from_numpy(self.winner[idx])


def make_loader(ds, batch, train):
    order = RandomSampler(ds) if train else range(len(ds))
    return DataLoader(ds, sampler=BatchSampler(order, batch, drop_last=train), batch_size=None)


class Residual(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.c1 = nn.Conv2d(ch, ch, 3, padding=1, bias=False)
        self.b1 = nn.BatchNorm2d(ch)
        self.c2 = nn.Conv2d(ch, ch, 3, padding=1, bias=False)
        self.b2 = nn.BatchNorm2d(ch)

    def forward(self, x):
        y = F.relu(self.b1(self.c1(x)), inplace=True)
        return F.relu(x + self.b2(self.c2(y)), inplace=True)


class ValueNet(nn.Module):
    def __init__(self, ch=32, depth=3):
        super().__init__()
        self.stem = nn.Conv2d(3, ch, 3, padding=1)
        self.tower = nn.Sequential(*[Residual(ch) for _ in range(depth)])
        self.value = nn.Sequential(nn.Linear(ch, 32), nn.ReLU(), nn.Linear(32, 1), nn.Tanh())

    def forward(self, boards):
        stones = boards.float()
        empty = 1 - stones.sum(1, keepdim=True)
        x = torch.cat([stones, empty], 1).contiguous(memory_format=torch.channels_last)
        return self.value(self.tower(F.relu(self.stem(x))).mean((2, 3))).squeeze(1)


@torch.no_grad()
def evaluate(net, loader):
    net.eval()
    right = sum(((net(b) > 0) == (z > 0)).sum().item() for b, z in loader)
    net.train()
    return right / len(loader.dataset)


def main():
    torch.manual_seed(19)
    np.random.seed(19)
    train = make_loader(Positions(*self_play(12_800, 1), augment=True), 64, True)
    test = make_loader(Positions(*self_play(1_000, 2), augment=False), 200, False)
    net = ValueNet().to(memory_format=torch.channels_last)
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    for epoch in range(1, EPOCHS + 1):
        tick, total = time.time(), 0.0
        for boards, z in train:
            loss = F.mse_loss(net(boards), z)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"epoch {epoch}: train mse {total / len(train):.4f}, test accuracy {evaluate(net, test):.3f}, "
              f"{time.time() - tick:.1f} s", flush=True)


if __name__ == "__main__":
    main()
