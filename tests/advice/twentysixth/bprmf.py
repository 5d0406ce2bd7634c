"""BPR two-tower recommender on implicit feedback. Popularity-weighted negatives, plain numpy batching.

Data: data/bprmf/{user,item}.npy, one row an interaction.
"""
import argparse
from pathlib import Path

import numpy as np
import torch
from torch import nn

DIR = Path(__file__).parent / "data" / "bprmf"
N_USERS, N_ITEMS, TOPICS = 4000, 9000, 12


def make_interactions(total=42_000):
    if (DIR / "item.npy").exists():
        return
    DIR.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(31)
    topic_of = rng.integers(0, TOPICS, N_ITEMS)
    popularity = 1.0 / (10 + rng.permutation(N_ITEMS)) ** 0.8
    likes = rng.integers(0, TOPICS, N_USERS)
    users = rng.integers(0, N_USERS, total)
    items = np.empty(total, np.int64)
    for t in range(TOPICS):
        weight = popularity * np.where(topic_of == t, 15.0, 1.0)
        who = np.flatnonzero(likes[users] == t)
        items[who] = rng.choice(N_ITEMS, size=len(who), p=weight / weight.sum())
    np.save(DIR / "user.npy", users)
    np.save(DIR / "item.npy", items)


class NegativeSampler:
    """Negatives in proportion to popularity ** 0.75, never something that the user has had."""

    def __init__(self, users, items, k, seed):
        self.k = k
        self.rng = np.random.default_rng(seed)
        weight = np.bincount(items, minlength=N_ITEMS) ** 0.75 + 0.01
        self.p = weight / weight.sum()
        self.seen = [set() for _ in range(N_USERS)]
        for u, i in zip(users.tolist(), items.tolist()):
            self.seen[u].add(i)

    def draw(self, user):
        seen = self.seen[user]
        out = []
        while len(out) < self.k:
            for item in self.rng.choice(N_ITEMS, size=self.k, p=self.p).tolist():
                if item not in seen:
                    out.append(item)
        return out[:self.k]

    def batch(self, users):
        return np.array([self.draw(u) for u in users.tolist()])


class TwoTower(nn.Module):
    def __init__(self, dim=32, hidden=96, out=48):
        super().__init__()
        self.user = nn.Embedding(N_USERS, dim)
        self.item = nn.Embedding(N_ITEMS, dim)
        self.user_net = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, out))
        self.item_net = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, out))
        for table in (self.user, self.item):
            nn.init.normal_(table.weight, std=0.1)

    def forward(self, user, items):
        """user (B,), items (B, 1 + k) -> scores (B, 1 + k)"""
        return torch.einsum("bd,bkd->bk", self.user_net(self.user(user)), self.item_net(self.item(items)))

    def all_scores(self, user):
        return self.user_net(self.user(user)) @ self.item_net(self.item.weight).T


def bpr_loss(scores):
    return -nn.functional.logsigmoid(scores[:, :1] - scores[:, 1:]).mean()


@torch.inference_mode()
def hit_rate(model, users, items, top=50):
    model.eval()
    hits = 0
    for lo in range(0, len(users), 500):
        best = model.all_scores(torch.from_numpy(users[lo:lo + 500])).topk(top).indices
        hits += (best == torch.from_numpy(items[lo:lo + 500])[:, None]).any(1).sum().item()
    return hits / len(users)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--batch-size", type=int, default=256)
    ap.add_argument("--negatives", type=int, default=10)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--seed", type=int, default=0)
    args = ap.parse_args()

    torch.manual_seed(args.seed)
    make_interactions()
    users, items = np.load(DIR / "user.npy"), np.load(DIR / "item.npy")
    order = np.random.default_rng(args.seed).permutation(len(users))
    held, train = order[:2000], order[2000:]
    sampler = NegativeSampler(users[train], items[train], args.negatives, args.seed)
    model = TwoTower()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    shuffle = np.random.default_rng(args.seed + 1)

    for epoch in range(args.epochs):
        model.train()
        train = shuffle.permutation(train)
        total = 0.0
        steps = len(train) // args.batch_size
        for s in range(steps):
            rows = train[s * args.batch_size:(s + 1) * args.batch_size]
            negatives = sampler.batch(users[rows])
            candidates = torch.from_numpy(np.concatenate([items[rows][:, None], negatives], 1))
            loss = bpr_loss(model(torch.from_numpy(users[rows]), candidates))
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            total += loss.item()
        rate = hit_rate(model, users[held], items[held])
        print(f"epoch {epoch}: loss {total / steps:.4f} hit@50 {rate:.4f}", flush=True)


if __name__ == "__main__":
    main()
