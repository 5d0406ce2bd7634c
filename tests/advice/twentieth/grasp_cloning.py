"""Behaviour cloning of a 7-DoF arm from recorded grasp episodes."""
import os
import tempfile
import threading
import time
from collections import deque

import numpy as np
import torch
from torch import nn

EPOCHS = int(os.environ.get("EPOCHS", 5))
DATA = os.path.join(os.environ.get("DATA_DIR", tempfile.gettempdir()), "grasp_cloning")
N_EPISODES = 160
HORIZON = 220
STATE = 26
DEPTH = 48
ACTION = 7
WINDOW = 8
BATCH = 64
STEPS = 25


def record_episodes():
    path = os.path.join(DATA, "episodes.npz")
    if os.path.exists(path):
        return path
    os.makedirs(DATA, exist_ok=True)
    rng = np.random.default_rng(31)
    state = rng.normal(size=(N_EPISODES, HORIZON, STATE)).cumsum(1).astype(np.float32) * 0.1
    depth = rng.integers(0, 255, (N_EPISODES, HORIZON // 10, DEPTH, DEPTH), dtype=np.uint8)
    mix = rng.normal(size=(STATE, ACTION)) / STATE ** 0.5
    action = np.tanh(state @ mix).astype(np.float32)
    np.savez(path, state=state, depth=depth, action=action)
    return path


class ReplayFeeder(threading.Thread):
    """Cuts random windows from the episodes while the policy trains."""

    def __init__(self, path, n_batches, ahead=4, seed=0):
        super().__init__(daemon=True)
        with np.load(path) as f:
            self.state, self.depth, self.action = f["state"], f["depth"], f["action"]
        self.n_batches = n_batches
        self.ahead = ahead
        self.rng = np.random.default_rng(seed)
        self.ready = deque()

    def sample(self):
        ep = self.rng.integers(0, N_EPISODES, BATCH)
        t = self.rng.integers(0, HORIZON - WINDOW, BATCH)
        steps = t[:, None] + np.arange(WINDOW)
        state = self.state[ep[:, None], steps]
        action = self.action[ep, t + WINDOW - 1]
        depth = self.depth[ep, t // 10].astype(np.float32) / 255.0
        return tuple(torch.from_numpy(a) for a in (state, depth[:, None], action))

    def run(self):
        for _ in range(self.n_batches):
            batch = self.sample()
            while len(self.ready) >= self.ahead:
                continue
            self.ready.append(batch)

    def next_batch(self):
        while not self.ready:
            time.sleep(0.0005)
        return self.ready.popleft()


class Policy(nn.Module):
    def __init__(self, hidden=128):
        super().__init__()
        self.vision = nn.Sequential(
            nn.Conv2d(1, 32, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
            nn.Conv2d(64, 64, 3, stride=2, padding=1), nn.ReLU(),
            nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        )
        self.memory = nn.GRU(STATE, hidden, batch_first=True)
        self.head = nn.Sequential(nn.Linear(256 + hidden, 128), nn.ReLU(), nn.Linear(128, ACTION))

    def forward(self, state, depth):
        _, h = self.memory(state)
        return self.head(torch.cat([self.vision(depth), h[-1]], 1)).tanh()


def main():
    torch.manual_seed(0)
    feeder = ReplayFeeder(record_episodes(), EPOCHS * STEPS)
    policy = Policy()
    opt = torch.optim.Adam(policy.parameters(), lr=1e-3, fused=True)
    feeder.start()
    for epoch in range(EPOCHS):
        t0 = time.time()
        running = torch.zeros(())
        for _ in range(STEPS):
            state, depth, action = feeder.next_batch()
            loss = nn.functional.mse_loss(policy(state, depth), action)
            opt.zero_grad()
            loss.backward()
            opt.step()
            running += loss.detach()
        print(f"epoch {epoch + 1}/{EPOCHS} mse {running.item() / STEPS:.4f} in {time.time() - t0:.1f}s", flush=True)


if __name__ == "__main__":
    main()
