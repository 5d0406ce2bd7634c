import argparse
import json
import pickle
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

DATA = Path(__file__).parent / "data" / "dtpole"


def collect(path, n_traj=60, horizon=5000, seed=3):
    """Swing-up controller of mixed skill, logged as a list of trajectories."""
    rng = np.random.default_rng(seed)
    trajs = []
    for k in range(n_traj):
        skill = rng.uniform(0.2, 1.0)
        gain = rng.normal(0, 0.1, (2,)) + np.array([10.0, 2.5])
        th, om = rng.uniform(-1.5, 1.5), rng.normal()
        length = int(horizon * rng.uniform(0.6, 1.0))
        obs = np.zeros((length, 6), np.float32)
        act = np.zeros((length, 1), np.float32)
        rew = np.zeros(length, np.float32)
        for t in range(length):
            wrapped = (th + np.pi) % (2 * np.pi) - np.pi
            u = np.clip(-skill * (gain[0] * wrapped + gain[1] * om) + 0.4 * rng.normal(), -4, 4)
            obs[t] = np.cos(th), np.sin(th), om, np.cos(2 * th), np.sin(2 * th), t / horizon
            act[t] = u / 4
            rew[t] = -(wrapped ** 2 + 0.1 * om ** 2 + 0.01 * u ** 2)
            om = np.clip(om + (7.5 * np.sin(th) + 3 * u) * 0.02, -8, 8)
            th += om * 0.02
        trajs.append({"observations": obs, "actions": act, "rewards": rew,
                      "terminals": np.arange(length) == length - 1})
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as f:
        pickle.dump(trajs, f)


def discount_cumsum(x, gamma):
    out = np.zeros_like(x)
    out[-1] = x[-1]
    for t in reversed(range(x.shape[0] - 1)):
        out[t] = x[t] + gamma * out[t + 1]
    return out


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.ln2(x))


class DecisionTransformer(nn.Module):
    def __init__(self, state_dim, act_dim, d=32, layers=2, heads=2, max_ep_len=5120):
        super().__init__()
        self.embed_timestep = nn.Embedding(max_ep_len, d)
        self.embed_return = nn.Linear(1, d)
        self.embed_state = nn.Linear(state_dim, d)
        self.embed_action = nn.Linear(act_dim, d)
        self.embed_ln = nn.LayerNorm(d)
        self.blocks = nn.Sequential(*[Block(d, heads) for _ in range(layers)])
        self.predict_action = nn.Sequential(nn.Linear(d, act_dim), nn.Tanh())

    def forward(self, states, actions, rtg, timesteps):
        b, t = states.shape[:2]
        time = self.embed_timestep(timesteps)
        x = torch.stack((self.embed_return(rtg) + time,
                         self.embed_state(states) + time,
                         self.embed_action(actions) + time), 2).reshape(b, 3 * t, -1)
        x = self.blocks(self.embed_ln(x)).view(b, t, 3, -1)
        return self.predict_action(x[:, :, 1])


class SequenceTrainer:
    def __init__(self, model, optimizer, get_batch, scheduler, batch_size):
        self.model, self.optimizer, self.scheduler = model, optimizer, scheduler
        self.get_batch, self.batch_size = get_batch, batch_size

    def train_iteration(self, num_steps):
        self.model.train()
        losses = [self.train_step() for _ in range(num_steps)]
        return {"training/train_loss_mean": float(np.mean(losses)),
                "training/train_loss_std": float(np.std(losses))}

    def train_step(self):
        s, a, rtg, t, mask = self.get_batch(self.batch_size)
        pred = self.model(s, a, rtg, t)
        keep = mask.reshape(-1) > 0
        loss = F.mse_loss(pred.reshape(-1, a.shape[-1])[keep], a.reshape(-1, a.shape[-1])[keep])
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 0.25)
        self.optimizer.step()
        self.scheduler.step()
        return loss.item()


def experiment(args):
    path = DATA / "swingup-mixed-v0.pkl"
    if not path.exists():
        collect(path)
    with open(path, "rb") as f:
        trajectories = pickle.load(f)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    max_ep_len, scale, K = 5120, 1000.0, args.K
    states = np.concatenate([p["observations"] for p in trajectories])
    state_mean, state_std = states.mean(0), states.std(0) + 1e-6
    traj_lens = np.array([len(p["observations"]) for p in trajectories])
    returns = np.array([p["rewards"].sum() for p in trajectories])
    state_dim, act_dim = states.shape[1], trajectories[0]["actions"].shape[1]

    order = np.argsort(returns)
    order = order[len(order) // 10:]
    p_sample = traj_lens[order] / traj_lens[order].sum()

    def get_batch(batch_size):
        batch_inds = np.random.choice(np.arange(len(order)), size=batch_size, replace=True, p=p_sample)
        s, a, rtg, timesteps, mask = [], [], [], [], []
        for i in range(batch_size):
            traj = trajectories[int(order[batch_inds[i]])]
            si = np.random.randint(0, traj["rewards"].shape[0] - 1)
            s.append(traj["observations"][si:si + K])
            a.append(traj["actions"][si:si + K])
            tlen = s[-1].shape[0]
            timesteps.append(np.arange(si, si + tlen))
            rtg.append(discount_cumsum(traj["rewards"][si:], gamma=1.0)[:tlen].reshape(-1, 1))

            pad = K - tlen
            s[-1] = np.concatenate([np.zeros((pad, state_dim)), (s[-1] - state_mean) / state_std])
            a[-1] = np.concatenate([np.ones((pad, act_dim)) * -10.0, a[-1]])
            rtg[-1] = np.concatenate([np.zeros((pad, 1)), rtg[-1]]) / scale
            timesteps[-1] = np.concatenate([np.zeros(pad), timesteps[-1]])
            mask.append(np.concatenate([np.zeros(pad), np.ones(tlen)]))
        s = torch.from_numpy(np.stack(s)).float()
        a = torch.from_numpy(np.stack(a)).float()
        rtg = torch.from_numpy(np.stack(rtg)).float()
        timesteps = torch.from_numpy(np.stack(timesteps)).long().clamp(max=max_ep_len - 1)
        mask = torch.from_numpy(np.stack(mask))
        return s, a, rtg, timesteps, mask

    model = DecisionTransformer(state_dim, act_dim)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min((n + 1) / 100, 1))
    trainer = SequenceTrainer(model, optimizer, get_batch, scheduler, args.batch_size)
    log = open(DATA / "log.jsonl", "w")
    for it in range(args.epochs):
        out = trainer.train_iteration(args.num_steps_per_iter)
        out["iteration"] = it
        log.write(json.dumps(out) + "\n")
        print(f"iteration {it} loss {out['training/train_loss_mean']:.5f} "
              f"std {out['training/train_loss_std']:.5f}", flush=True)
    torch.save(model.state_dict(), DATA / "dt.pt")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--num_steps_per_iter", type=int, default=70)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--K", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    experiment(parser.parse_args())


if __name__ == "__main__":
    main()
