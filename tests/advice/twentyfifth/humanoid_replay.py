"""Offline actor-critic (TD3+BC) on logged episodes of a walking humanoid."""
import argparse
import copy
import json
import random
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

HERE = Path(__file__).resolve().parent
DATA = HERE / "data" / "humanoid_replay"
OBS, ACT = 240, 17
EPISODES, LENGTH = 60, 120


def make_data():
    path = DATA / "episodes.jsonl"
    if path.exists():
        return
    DATA.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(5)
    drift = rng.normal(0, 1 / np.sqrt(OBS), (OBS, OBS))
    push = rng.normal(0, 0.3, (ACT, OBS))
    teacher = rng.normal(0, 1 / np.sqrt(OBS), (OBS, ACT))
    lines = []
    for _ in range(EPISODES):
        state = rng.normal(size=OBS)
        episode = {"obs": [], "action": [], "reward": []}
        for _ in range(LENGTH):
            action = np.tanh(state @ teacher + 0.3 * rng.normal(size=ACT))
            episode["obs"].append(np.round(state, 4).tolist())
            episode["action"].append(np.round(action, 4).tolist())
            state = 0.9 * np.tanh(state @ drift + action @ push) + 0.3 * rng.normal(size=OBS)
            episode["reward"].append(round(float(state[:20].mean() - 0.05 * (action ** 2).sum()), 4))
        lines.append(json.dumps(episode))
    path.write_text("\n".join(lines))


class ReplayBuffer:
    def __init__(self, gamma=0.97):
        self.gamma = gamma
        self.items = []

    def add(self, obs, action, reward, next_obs, done):
        self.items.append((obs, action, reward, next_obs, 0.0 if done else self.gamma))

    def load(self, path):
        with open(path) as f:
            for line in f:
                episode = json.loads(line)
                obs, action, reward = episode["obs"], episode["action"], episode["reward"]
                last = len(obs) - 1
                for t in range(last):
                    self.add(obs[t], action[t], reward[t], obs[t + 1], t == last - 1)

    def __len__(self):
        return len(self.items)

    def sample(self, batch_size):
        columns = zip(*random.sample(self.items, batch_size))
        return [torch.tensor(column, dtype=torch.float32) for column in columns]


def mlp(inside, outside, hidden=192):
    return nn.Sequential(
        nn.Linear(inside, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, outside)
    )


class Agent:
    def __init__(self, lr=3e-4):
        self.actor = nn.Sequential(mlp(OBS, ACT), nn.Tanh())
        self.critics = nn.ModuleList([mlp(OBS + ACT, 1), mlp(OBS + ACT, 1)])
        self.slow_actor = copy.deepcopy(self.actor)
        self.slow_critics = copy.deepcopy(self.critics)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=lr)
        self.critic_opt = torch.optim.Adam(self.critics.parameters(), lr=lr)

    def update_critics(self, obs, action, reward, next_obs, discount):
        with torch.no_grad():
            smooth = (0.2 * torch.randn_like(action)).clamp(-0.5, 0.5)
            next_action = (self.slow_actor(next_obs) + smooth).clamp(-1, 1)
            pair = torch.cat([next_obs, next_action], 1)
            value = torch.minimum(*[critic(pair).squeeze(1) for critic in self.slow_critics])
            target = reward + discount * value
        pair = torch.cat([obs, action], 1)
        loss = sum(F.mse_loss(critic(pair).squeeze(1), target) for critic in self.critics)
        self.critic_opt.zero_grad(set_to_none=True)
        loss.backward()
        self.critic_opt.step()
        return loss.item()

    def update_actor(self, obs, action):
        guess = self.actor(obs)
        value = self.critics[0](torch.cat([obs, guess], 1))
        loss = F.mse_loss(guess, action) - 0.5 * value.mean() / value.abs().mean().detach().clamp(min=1e-3)
        self.actor_opt.zero_grad(set_to_none=True)
        loss.backward()
        self.actor_opt.step()
        with torch.no_grad():
            for slow, fast in ((self.slow_actor, self.actor), (self.slow_critics, self.critics)):
                torch._foreach_lerp_(list(slow.parameters()), list(fast.parameters()), 0.01)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--steps", type=int, default=250, help="gradient steps per epoch")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--actor-every", type=int, default=2)
    parser.add_argument("--make", action="store_true")
    args = parser.parse_args()
    make_data()
    if args.make:
        return

    random.seed(1)
    torch.set_num_threads(1)
    torch.manual_seed(1)
    replay = ReplayBuffer()
    replay.load(DATA / "episodes.jsonl")
    print(f"{len(replay)} transitions")
    agent = Agent()

    for epoch in range(args.epochs):
        began = time.time()
        total = 0.0
        for step in range(args.steps):
            obs, action, reward, next_obs, discount = replay.sample(args.batch_size)
            total += agent.update_critics(obs, action, reward, next_obs, discount)
            if step % args.actor_every == 0:
                agent.update_actor(obs, action)
        obs, action, *_ = replay.sample(1024)
        with torch.no_grad():
            gap = F.mse_loss(agent.actor(obs), action).item()
        print(f"epoch {epoch} loss {total / args.steps:.4f} cloning error {gap:.4f} ({time.time() - began:.1f} s)", flush=True)


if __name__ == "__main__":
    main()
