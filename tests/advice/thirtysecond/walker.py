# Offline actor-critic on logged walker trajectories (single file, in the manner of cleanrl)
import argparse
import os
import random
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

OBS, ACT = 24, 6


@dataclass
class Args:
    data: str
    seed: int = 1
    passes: int = 8
    batch_size: int = 96
    horizon: int = 20
    gamma: float = 0.99
    lam: float = 0.9
    beta: float = 2.0
    learning_rate: float = 3e-4
    tau: float = 0.01
    hidden: int = 256


def collect(path, episodes=700, seed=9):
    """Roll a noisy linear controller through random linear dynamics and log it."""
    rng = np.random.default_rng(seed)
    os.makedirs(path, exist_ok=True)
    a = np.eye(OBS) * 0.95 + rng.standard_normal((OBS, OBS)) * 0.008
    b = rng.standard_normal((ACT, OBS)) * 0.2
    k = rng.standard_normal((OBS, ACT)) * 0.15
    obs, act, rew, done = [], [], [], []
    for _ in range(episodes):
        s = rng.standard_normal(OBS)
        steps = int(rng.integers(60, 180))
        skill = rng.uniform(0, 1)
        for t in range(steps):
            u = np.tanh(-skill * s @ k + rng.standard_normal(ACT) * 0.5)
            obs.append(s)
            act.append(u)
            rew.append(1.0 - 0.05 * np.dot(s, s) / OBS - 0.1 * np.dot(u, u) / ACT)
            s = s @ a + u @ b + rng.standard_normal(OBS) * 0.05
            done.append(t == steps - 1)
    np.savez(os.path.join(path, "log.npz"), obs=np.array(obs, np.float32), act=np.array(act, np.float32),
             rew=np.array(rew, np.float32), done=np.array(done, np.float32))


class SegmentDataset(Dataset):
    """Every segment of `horizon` steps, stride horizon / 2, may run over episode ends."""

    def __init__(self, path, horizon):
        with np.load(os.path.join(path, "log.npz")) as z:
            self.obs, self.act, self.rew, self.done = (z[k] for k in ("obs", "act", "rew", "done"))
        self.horizon = horizon
        self.starts = np.arange(0, len(self.rew) - horizon - 1, horizon // 2)
        self.mean, self.std = self.obs.mean(0), self.obs.std(0) + 1e-6

    def __len__(self):
        return len(self.starts)

    def __getitem__(self, i):
        s = self.starts[i]
        e = s + self.horizon
        obs = (self.obs[s:e + 1] - self.mean) / self.std
        return obs, self.act[s:e], self.rew[s:e], self.done[s:e]


def mlp(i, o, h):
    return nn.Sequential(nn.Linear(i, h), nn.LayerNorm(h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, o))


class Agent(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.critic = mlp(OBS, 1, hidden)
        self.actor = mlp(OBS, ACT, hidden)
        self.logstd = nn.Parameter(torch.zeros(ACT))

    def value(self, obs):
        return self.critic(obs).squeeze(-1)

    def logprob(self, obs, act):
        return torch.distributions.Normal(self.actor(obs), self.logstd.exp()).log_prob(act).sum(-1)


def lambda_returns(rewards, dones, values, gamma, lam):
    """TD(lambda) targets; values has one more step than rewards."""
    targets = torch.zeros_like(rewards)
    for b in range(rewards.shape[0]):
        nxt = values[b, -1]
        for t in reversed(range(rewards.shape[1])):
            if dones[b, t]:
                nxt = rewards[b, t]
            else:
                nxt = rewards[b, t] + gamma * ((1 - lam) * values[b, t + 1] + lam * nxt)
            targets[b, t] = nxt
    return targets


def main(args):
    if not os.path.exists(os.path.join(args.data, "log.npz")):
        collect(args.data)
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    dataset = SegmentDataset(args.data, args.horizon)
    loader = DataLoader(dataset, batch_size=args.batch_size, shuffle=True, num_workers=1, drop_last=True)
    agent, target = Agent(args.hidden), Agent(args.hidden)
    target.load_state_dict(agent.state_dict())
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate)

    for p in range(args.passes):
        v_losses, p_losses = [], []
        for obs, act, rew, done in loader:
            with torch.no_grad():
                returns = lambda_returns(rew, done, target.value(obs), args.gamma, args.lam)
            value = agent.value(obs[:, :-1])
            v_loss = F.smooth_l1_loss(value, returns)

            adv = (returns - value).detach()
            weight = torch.exp(args.beta * (adv - adv.mean()) / (adv.std() + 1e-6)).clamp(max=10.0)
            p_loss = -(weight * agent.logprob(obs[:, :-1], act)).mean()

            optimizer.zero_grad()
            (v_loss + 0.1 * p_loss).backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()

            with torch.no_grad():
                for w, tw in zip(agent.parameters(), target.parameters()):
                    tw.lerp_(w, args.tau)
            v_losses.append(v_loss.item())
            p_losses.append(p_loss.item())
        print(f"pass={p} value_loss={np.mean(v_losses):.5f} policy_loss={np.mean(p_losses):.4f}", flush=True)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--data", default="data/walker")
    ap.add_argument("--passes", type=int, default=Args.passes)
    ns = ap.parse_args()
    main(Args(data=ns.data, passes=ns.passes))
