"""Behaviour cloning for the block-pushing arm, from recorded teleoperation episodes."""
import argparse
import gzip
import logging
import pickle
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset, RandomSampler

logger = logging.getLogger("pusher")
DEMOS = Path(__file__).parent / "data" / "pusher"


def record_episodes(folder: Path, n_episodes: int = 56, length: int = 50, seed: int = 5) -> None:
    if (folder / "done").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    table = np.clip(90 + np.cumsum(rng.normal(0, 1.5, (160, 160, 1)), axis=1), 0, 255).astype(np.uint8).repeat(3, 2)
    for e in range(n_episodes):
        arm, block, goal = rng.uniform(20, 140, (3, 2))
        steps = []
        for _ in range(length):
            aim = block + (block - goal) / (np.linalg.norm(block - goal) + 1e-6) * 8
            action = np.clip((aim - arm) * 0.2, -4, 4) + rng.normal(0, 0.3, 2)
            frame = table.copy()
            frame ^= rng.integers(0, 8, frame.shape, dtype=np.uint8)
            for (x, y), colour, r in ((goal, (40, 220, 40), 9), (block, (220, 60, 40), 8), (arm, (30, 30, 230), 5)):
                x, y = int(x), int(y)
                frame[max(0, y - r):y + r, max(0, x - r):x + r] = colour
            steps.append({"rgb": frame, "proprio": (arm / 160).astype(np.float32), "action": action.astype(np.float32)})
            arm = np.clip(arm + action, 6, 154)
            if np.linalg.norm(arm - block) < 10:
                block = block + (goal - block) * 0.15
        with gzip.open(folder / f"episode_{e:03d}.pkl.gz", "wb", compresslevel=3) as fh:
            pickle.dump(steps, fh)
    (folder / "done").touch()


class DemoDataset(Dataset):
    """Every (observation, action) step of a set of episodes."""

    def __init__(self, files, image_size: int = 64, length: int = 50):
        self.files = list(files)
        self.image_size = image_size
        self.length = length
        self._episodes = {}

    def __len__(self):
        return len(self.files) * self.length

    def _read(self, path):
        with gzip.open(path, "rb") as fh:
            steps = pickle.load(fh)
        size = (self.image_size, self.image_size)
        rgb = np.stack([np.asarray(Image.fromarray(s["rgb"]).resize(size, Image.BILINEAR)) for s in steps])
        return rgb, np.stack([s["proprio"] for s in steps]), np.stack([s["action"] for s in steps])

    def episode(self, k):
        if k not in self._episodes:
            self._episodes[k] = self._read(self.files[k])
        return self._episodes[k]

    def __getitem__(self, i):
        rgb, proprio, action = self.episode(i // self.length)
        t = i % self.length
        return torch.from_numpy(rgb[t]), torch.from_numpy(proprio[t]), torch.from_numpy(action[t])


class Policy(nn.Module):
    def __init__(self, width: int = 24):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, width, 5, 2, 2), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, 2, 1), nn.ReLU(),
            nn.Conv2d(2 * width, 2 * width, 3, 2, 1), nn.ReLU(),
            nn.Flatten(), nn.Linear(2 * width * 64, 128), nn.ReLU(),
        )
        self.head = nn.Sequential(nn.Linear(130, 128), nn.ReLU(), nn.Linear(128, 2))

    def forward(self, rgb, proprio):
        z = self.encoder(rgb.permute(0, 3, 1, 2).float() / 127.5 - 1)
        return self.head(torch.cat([z, proprio], 1))


@dataclass
class TrainerConfig:
    epochs: int
    batch_size: int = 64
    num_workers: int = 2
    lr: float = 5e-4
    grad_clip: float = 1.0
    seed: int = 1


class BCTrainer:
    def __init__(self, config: TrainerConfig, folder: Path):
        self.config = config
        torch.manual_seed(config.seed)
        files = sorted(folder.glob("episode_*.pkl.gz"))
        self.train_set = DemoDataset(files[:-4])
        self.eval_set = DemoDataset(files[-4:])
        order = RandomSampler(self.train_set, generator=torch.Generator().manual_seed(config.seed))
        self.train_loader = DataLoader(
            self.train_set,
            batch_size=config.batch_size,
            sampler=order,
            num_workers=config.num_workers,
            drop_last=True,
        )
        self.eval_loader = DataLoader(self.eval_set, batch_size=100)
        self.policy = Policy()
        self.optimizer = torch.optim.AdamW(self.policy.parameters(), lr=config.lr)

    def step(self, batch) -> float:
        rgb, proprio, action = batch
        loss = nn.functional.smooth_l1_loss(self.policy(rgb, proprio), action)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.policy.parameters(), self.config.grad_clip)
        self.optimizer.step()
        return loss.item()

    @torch.no_grad()
    def evaluate(self) -> float:
        self.policy.eval()
        errors = [(self.policy(rgb, proprio) - action).abs().mean().item() for rgb, proprio, action in self.eval_loader]
        self.policy.train()
        return sum(errors) / len(errors)

    def fit(self) -> None:
        best = float("inf")
        for epoch in range(self.config.epochs):
            losses = [self.step(batch) for batch in self.train_loader]
            error = self.evaluate()
            logger.info("epoch %d loss %.5f eval_mae %.5f", epoch, sum(losses) / len(losses), error)
            if error < best:
                best = error
                torch.save(self.policy.state_dict(), DEMOS / "best.pt")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=7)
    parser.add_argument("--batch-size", type=int, default=64)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
    record_episodes(DEMOS)
    BCTrainer(TrainerConfig(epochs=args.epochs, batch_size=args.batch_size), DEMOS).fit()


if __name__ == "__main__":
    main()
