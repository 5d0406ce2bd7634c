"""Behaviour cloning of a gripper policy from tele-operated demonstrations.

Transitions near contact matter more than free-space motion, so batches are drawn by
priority; the priorities follow the policy's error per episode.
"""
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, Sampler

DEMO_FILE = Path(__file__).parent / "data" / "grasp_demos.npz"


@dataclass
class Args:
    epochs: int = int(os.environ.get("EPOCHS", 10))
    batch: int = 64
    draws_per_epoch: int = 4800
    lr: float = 1e-3
    seed: int = 1


def record_demos(path, episodes=300, steps=120):
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    yy, xx = np.mgrid[:40, :40].astype(np.float32)
    depth = np.empty((episodes * steps, 40, 40), np.uint8)
    joints = np.empty((episodes * steps, 7), np.float32)
    action = np.empty((episodes * steps, 4), np.float32)
    for e in range(episodes):
        goal = rng.uniform(8, 32, 2)
        pos = rng.uniform(0, 40, 2)
        for t in range(steps):
            i = e * steps + t
            delta = (goal - pos) * 0.05 + rng.normal(0, 0.1, 2)
            scene = 200 * np.exp(-((yy - goal[0]) ** 2 + (xx - goal[1]) ** 2) / 18)
            scene += 120 * np.exp(-((yy - pos[0]) ** 2 + (xx - pos[1]) ** 2) / 8)
            depth[i] = np.minimum(scene, 255)
            joints[i] = np.concatenate([pos / 40, rng.normal(0, 0.1, 5)])
            action[i] = [*delta, t / steps, float(np.abs(goal - pos).max() < 2)]
            pos = pos + delta
    part = path.with_name(f"{path.stem}.{os.getpid()}.part.npz")
    np.savez(part, depth=depth, joints=joints, action=action,
             episode=np.repeat(np.arange(episodes), steps))
    os.replace(part, path)


class Demos(Dataset):
    def __init__(self, path):
        with np.load(path) as z:
            self.depth, self.joints = z["depth"], z["joints"]
            self.action, self.episode = z["action"], z["episode"]

    def __len__(self):
        return len(self.action)

    def __getitem__(self, i):
        dy, dx = np.random.randint(0, 5, 2)
        frame = np.pad(self.depth[i], 2, mode="edge")[dy:dy + 40, dx:dx + 40]
        return i, torch.from_numpy(frame)[None], self.joints[i], self.action[i]


class PrioritySampler(Sampler):
    def __init__(self, episode, contact, n_draws, seed):
        self.episode, self.n_draws = episode, n_draws
        self.base = 1.0 + 4.0 * contact
        self.error = np.ones(episode.max() + 1)
        self.rng = np.random.default_rng(seed)

    def report(self, idx, err):
        ep = self.episode[idx]
        self.error[ep] = 0.9 * self.error[ep] + 0.1 * err

    def __len__(self):
        return self.n_draws

    def __iter__(self):
        w = self.base * np.sqrt(self.error[self.episode] + 1e-3)
        p = w / w.sum()
        for _ in range(self.n_draws):
            yield int(self.rng.choice(len(p), p=p))


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.eye = nn.Sequential(
            nn.Conv2d(1, 16, 5, stride=2, padding=2), nn.ELU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ELU(),
            nn.Conv2d(32, 32, 3, stride=2, padding=1), nn.ELU(), nn.Flatten(),
            nn.Linear(32 * 25, 64), nn.ELU())
        self.arm = nn.Sequential(nn.Linear(64 + 7, 64), nn.ELU(), nn.Linear(64, 4))

    def forward(self, depth, joints):
        return self.arm(torch.cat([self.eye(depth), joints], 1))


def train(args):
    torch.manual_seed(args.seed)
    np.random.seed(args.seed)
    record_demos(DEMO_FILE)
    demos = Demos(DEMO_FILE)
    sampler = PrioritySampler(demos.episode, demos.action[:, 3], args.draws_per_epoch, args.seed)
    loader = DataLoader(demos, batch_size=args.batch, sampler=sampler, drop_last=True)
    policy = Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        seen = []
        for idx, depth, joints, action in loader:
            pred = policy(depth.float() / 255, joints)
            err = (pred - action).pow(2).mean(1)
            optimizer.zero_grad()
            err.mean().backward()
            optimizer.step()
            seen.append((idx, err.detach()))
        idx, err = (torch.cat(c).numpy() for c in zip(*seen))
        sampler.report(idx, err)
        print(f"epoch {epoch:03d} | mse {err.mean():.5f} | worst episode {sampler.error.max():.4f}", flush=True)


if __name__ == "__main__":
    train(Args())
