"""Grasp success from wrist-camera clips (tubelet embedding + GRU)."""

import os
import tempfile
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, random_split

torch.set_num_threads(1)


@dataclass
class Config:
    epochs: int = int(os.environ.get("EPOCHS", 9))
    clips: int = 144
    frames: int = 16
    size: int = 112
    batch: int = 12
    workers: int = 2
    lr: float = 1e-3
    seed: int = 21


MEAN = np.array([0.43, 0.41, 0.38])
STD = np.array([0.23, 0.22, 0.22])


def record_episodes(cfg, folder):
    """All clips in one raw file, as the robot's logger leaves them."""
    rng = np.random.default_rng(cfg.seed)
    shape = (cfg.clips, cfg.frames, cfg.size, cfg.size, 3)
    log = np.lib.format.open_memmap(os.path.join(folder, "wrist.npy"), "w+", np.uint8, shape)
    success = rng.integers(0, 2, cfg.clips)
    background = rng.integers(40, 160, (4, cfg.size, cfg.size, 3), dtype=np.uint8)
    for i in range(cfg.clips):
        clip = np.repeat(background[i % 4][None], cfg.frames, axis=0)
        x, y = rng.integers(20, 70, 2)
        for t in range(cfg.frames):
            lift = 2 * t if success[i] else 0
            clip[t, max(y - lift, 0) : y - lift + 20, x : x + 20] = (220, 60, 40)
        log[i] = clip
    log.flush()
    np.save(os.path.join(folder, "success.npy"), success)


class Episodes(Dataset):
    def __init__(self, folder):
        self.log = np.load(os.path.join(folder, "wrist.npy"), mmap_mode="r")
        self.success = np.load(os.path.join(folder, "success.npy"))

    def __len__(self):
        return len(self.success)

    def __getitem__(self, index):
        clip = self.log[index]
        if torch.rand(1) < 0.5:
            clip = clip[:, :, ::-1]
        clip = (clip / 255.0 - MEAN) / STD
        clip = np.ascontiguousarray(clip.transpose(3, 0, 1, 2))
        return torch.from_numpy(clip), int(self.success[index])


class TubeletGRU(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.embed = nn.Conv3d(3, dim, (2, 8, 8), stride=(2, 8, 8))
        self.act = nn.GELU()
        self.pool = nn.AdaptiveAvgPool3d((None, 7, 7))
        self.gru = nn.GRU(dim * 49, 32, batch_first=True)
        self.head = nn.Linear(32, 2)

    def forward(self, clips):
        x = self.pool(self.act(self.embed(clips)))
        x = x.permute(0, 2, 1, 3, 4).flatten(2)
        return self.head(self.gru(x)[0][:, -1])


class Trainer:
    def __init__(self, cfg, folder):
        self.cfg = cfg
        data = Episodes(folder)
        held_out = len(data) // 6
        split = torch.Generator().manual_seed(cfg.seed)
        train, test = random_split(data, [len(data) - held_out, held_out], generator=split)
        self.train_loader = DataLoader(train, cfg.batch, shuffle=True, num_workers=cfg.workers, persistent_workers=True)
        self.test_loader = DataLoader(test, cfg.batch, num_workers=1, persistent_workers=True)
        self.model = TubeletGRU()
        self.opt = torch.optim.AdamW(self.model.parameters(), cfg.lr)
        self.loss = nn.CrossEntropyLoss()

    def predict(self, clips):
        clips = clips.float()
        return self.model(clips)

    def train_epoch(self):
        self.model.train()
        total = 0.0
        for clips, success in self.train_loader:
            loss = self.loss(self.predict(clips), success)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            total += loss.item()
        return total / len(self.train_loader)

    @torch.no_grad()
    def test(self):
        self.model.eval()
        right = count = 0
        for clips, success in self.test_loader:
            right += (self.predict(clips).argmax(1) == success).sum().item()
            count += len(success)
        return right / count

    def fit(self):
        for epoch in range(self.cfg.epochs):
            loss = self.train_epoch()
            print(f"epoch={epoch} loss={loss:.4f} test_acc={self.test():.3f}", flush=True)


if __name__ == "__main__":
    config = Config()
    torch.manual_seed(config.seed)
    with tempfile.TemporaryDirectory(prefix="grasp_") as where:
        record_episodes(config, where)
        Trainer(config, where).fit()
