"""Return-conditioned sequence policy trained on logged manipulation episodes.

    python trajgpt.py --data DIR --grad-steps 480 --d-model 160
"""
import argparse
import json
import os
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, RandomSampler

OBS, ACT, HORIZON, EPISODES = 18, 6, 120, 2400


def parse_args():
    ap = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    ap.add_argument("--data", default="data/trajgpt")
    ap.add_argument("--grad-steps", type=int, default=480)
    ap.add_argument("--report-every", type=int, default=80)
    ap.add_argument("--context", type=int, default=20)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--d-model", type=int, default=160)
    ap.add_argument("--layers", type=int, default=3)
    ap.add_argument("--lr", type=float, default=6e-4)
    ap.add_argument("--warmup", type=int, default=40)
    ap.add_argument("--num-workers", type=int, default=2)
    ap.add_argument("--restore-s", type=float, default=2.2, help="time to bring an archived episode back")
    ap.add_argument("--seed", type=int, default=3)
    return ap.parse_args()


def collect(root):
    """Roll a noisy linear controller in a toy linear system and log the episodes."""
    if os.path.exists(os.path.join(root, "episodes.json")):
        return
    os.makedirs(root, exist_ok=True)
    rng = np.random.default_rng(23)
    a = np.linalg.qr(rng.normal(size=(OBS, OBS)))[0] * 0.97
    b = rng.normal(size=(ACT, OBS)) * 0.3
    gain = rng.normal(size=(OBS, ACT)) * 0.25
    skill = rng.uniform(0.2, 1.0, (EPISODES, 1))
    state = rng.normal(size=(EPISODES, OBS))
    obs = np.zeros((EPISODES, HORIZON, OBS), np.float32)
    act = np.zeros((EPISODES, HORIZON, ACT), np.float32)
    rew = np.zeros((EPISODES, HORIZON), np.float32)
    for t in range(HORIZON):
        u = np.tanh(-skill * (state @ gain) + rng.normal(0, 0.3, (EPISODES, ACT)) * (1.1 - skill))
        obs[:, t], act[:, t] = state, u
        rew[:, t] = -np.square(state).mean(axis=1) - 0.05 * np.square(u).mean(axis=1)
        state = state @ a + u @ b + rng.normal(0, 0.05, state.shape)
    for name, arr in (("obs", obs), ("act", act), ("rew", rew)):
        np.save(os.path.join(root, f"{name}.npy"), arr)
    tiers = ["hot"] * EPISODES
    for e in rng.choice(EPISODES, 2, replace=False):
        tiers[int(e)] = "archive"
    with open(os.path.join(root, "episodes.json"), "w") as f:
        json.dump({"tier": tiers, "robot": [int(r) for r in rng.integers(0, 5, EPISODES)]}, f)


class EpisodeWindows(Dataset):
    def __init__(self, root, context, restore_s):
        self.obs = np.load(os.path.join(root, "obs.npy"), mmap_mode="r")
        self.act = np.load(os.path.join(root, "act.npy"), mmap_mode="r")
        self.rew = np.load(os.path.join(root, "rew.npy"), mmap_mode="r")
        with open(os.path.join(root, "episodes.json")) as f:
            self.tier = json.load(f)["tier"]
        self.context = context
        self.restore_s = restore_s

    def __len__(self):
        return EPISODES

    def _episode(self, e):
        if self.tier[e] == "archive":
            time.sleep(self.restore_s)
        return np.array(self.obs[e]), np.array(self.act[e]), np.array(self.rew[e])

    def __getitem__(self, e):
        obs, act, rew = self._episode(e)
        start = int(torch.randint(0, HORIZON - self.context, (1,)))
        togo = np.cumsum(rew[::-1])[::-1] / 10.0
        sl = slice(start, start + self.context)
        cond = np.concatenate([togo[sl, None], obs[sl]], axis=1).astype(np.float32)
        return torch.from_numpy(cond), torch.from_numpy(act[sl])


class Policy(nn.Module):
    def __init__(self, d_model, layers, context):
        super().__init__()
        self.embed = nn.Linear(OBS + 1, d_model)
        self.prev = nn.Linear(ACT, d_model)
        self.pos = nn.Parameter(torch.zeros(context, d_model))
        layer = nn.TransformerEncoderLayer(d_model, 4, 4 * d_model, dropout=0.0, batch_first=True, norm_first=True)
        self.trunk = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(d_model), nn.Linear(d_model, ACT), nn.Tanh())
        self.register_buffer("mask", torch.triu(torch.full((context, context), float("-inf")), 1))

    def forward(self, cond, act):
        shifted = F.pad(act[:, :-1], (0, 0, 1, 0))
        h = self.embed(cond) + self.prev(shifted) + self.pos
        return self.head(self.trunk(h, mask=self.mask))


def main():
    args = parse_args()
    collect(args.data)
    torch.manual_seed(args.seed)
    dataset = EpisodeWindows(args.data, args.context, args.restore_s)
    sampler = RandomSampler(dataset, replacement=True, num_samples=args.grad_steps * args.batch_size,
                            generator=torch.Generator().manual_seed(args.seed))
    loader = DataLoader(dataset, batch_size=args.batch_size, sampler=sampler, num_workers=args.num_workers)
    policy = Policy(args.d_model, args.layers, args.context)
    optim = torch.optim.AdamW(policy.parameters(), lr=args.lr, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.LambdaLR(optim, lambda s: min(1.0, (s + 1) / args.warmup))
    running, best = [], float("inf")
    for step, (cond, act) in enumerate(loader, 1):
        loss = F.mse_loss(policy(cond, act), act)
        optim.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
        optim.step()
        sched.step()
        running.append(loss.item())
        if step % args.report_every == 0:
            mean = sum(running) / len(running)
            best = min(best, mean)
            print(f"steps {step:5d} | action mse {mean:.5f} | best {best:.5f} | lr {sched.get_last_lr()[0]:.1e}",
                  flush=True)
            running.clear()


if __name__ == "__main__":
    main()
