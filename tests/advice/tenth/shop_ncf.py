"""
NCF with BPR loss on (fake) shop click logs.
Clicks are drawn by recency * 1/sqrt(item popularity), as agreed with the ranking team.
"""
import os
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import Dataset, DataLoader, Sampler

EPOCHS = int(os.environ.get('EPOCHS', 7))
N_USERS = 4000
N_ITEMS = 2500
N_CLICKS = 50_000
CLICKS_PER_EPOCH = 6144
N_NEG = 8
BATCH = 128
HALF_LIFE_DAYS = 30.0


def fake_clicks():
    rng = np.random.default_rng(99)
    users = rng.integers(0, N_USERS, N_CLICKS)
    # each user has a taste cluster, items are zipf inside of it
    rank = np.minimum(rng.zipf(1.4, N_CLICKS) - 1, N_ITEMS // 10 - 1)
    items = (users % 10) * (N_ITEMS // 10) + rank
    age_days = rng.exponential(40, N_CLICKS)
    return users, items, age_days


class ClickSampler(Sampler):
    """Weighted sampling with replacement, `num_samples` clicks each epoch."""

    def __init__(self, weights, num_samples, seed=0):
        self.p = weights / weights.sum()
        self.num_samples = num_samples
        self.rng = np.random.default_rng(seed)

    def __iter__(self):
        n = len(self.p)
        for _ in range(self.num_samples):
            yield int(self.rng.choice(n, p=self.p))

    def __len__(self):
        return self.num_samples


class BPRDataset(Dataset):
    def __init__(self, users, items):
        self.users = users
        self.items = items
        self.seen = [set() for _ in range(N_USERS)]
        for u, i in zip(users.tolist(), items.tolist()):
            self.seen[u].add(i)

    def __len__(self):
        return len(self.users)

    def __getitem__(self, idx):
        u = int(self.users[idx])
        neg = []
        while len(neg) < N_NEG:
            for j in torch.randint(N_ITEMS, (N_NEG,)).tolist():
                if j not in self.seen[u] and len(neg) < N_NEG:
                    neg.append(j)
        return u, int(self.items[idx]), np.array(neg)


class NCF(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.u = nn.Embedding(N_USERS, dim)
        self.i = nn.Embedding(N_ITEMS, dim)
        self.bias = nn.Embedding(N_ITEMS, 1)
        self.mlp = nn.Sequential(nn.Linear(2 * dim, 128), nn.ReLU(),
                                 nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1))
        for e in (self.u, self.i):
            nn.init.normal_(e.weight, std=0.05)
        nn.init.zeros_(self.bias.weight)

    def forward(self, u, i):
        u, e = self.u(u), self.i(i)
        if e.dim() == 3:
            u = u[:, None].expand_as(e)
        gmf = (u * e).sum(-1)
        return gmf + self.mlp(torch.cat([u, e], -1)).squeeze(-1) + self.bias(i).squeeze(-1)


def main():
    torch.manual_seed(13)
    torch.set_num_threads(1)
    users, items, age = fake_clicks()
    popularity = np.bincount(items, minlength=N_ITEMS)
    w = 0.5 ** (age / HALF_LIFE_DAYS) / np.sqrt(popularity[items])

    loader = DataLoader(
        BPRDataset(users, items),
        batch_size=BATCH,
        sampler=ClickSampler(w, CLICKS_PER_EPOCH),
        num_workers=1,
        persistent_workers=True,
        drop_last=True,
    )
    model = NCF()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)

    for epoch in range(EPOCHS):
        loss_sum, auc_sum, steps = 0., 0., 0
        for u, pos, neg in loader:
            s_pos = model(u, pos)
            s_neg = model(u, neg)
            diff = s_pos[:, None] - s_neg
            loss = -F.logsigmoid(diff).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            loss_sum += loss.item()
            auc_sum += (diff > 0).float().mean().item()
            steps += 1
        print(f'epoch {epoch}: bpr={loss_sum / steps:.4f} auc={auc_sum / steps:.4f}')


if __name__ == '__main__':
    main()
