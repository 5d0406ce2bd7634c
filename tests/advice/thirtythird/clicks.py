"""Click-through model with a small Lightning-like loop."""
import argparse
import pathlib

import numpy as np
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, SequentialSampler

CARDINALITIES = [1200, 340, 5000, 60, 900, 24, 7, 2400]
DENSE = 13


def generate(root: pathlib.Path, rows: int = 300_000):
    if (root / "click.npy").exists():
        return
    root.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(31)
    dense = rng.lognormal(0, 1, (rows, DENSE)).astype(np.float32)
    cats = np.stack([np.minimum(rng.zipf(1.3, rows), c) - 1 for c in CARDINALITIES], axis=1).astype(np.int32)
    score = np.log1p(dense) @ rng.normal(0, 0.5, DENSE)
    for j, c in enumerate(CARDINALITIES):
        score += rng.normal(0, 0.5, c)[cats[:, j]]
    score = (score - score.mean()) / score.std()
    np.save(root / "dense.npy", dense)
    np.save(root / "cats.npy", cats)
    np.save(root / "click.npy", (rng.random(rows) < 1 / (1 + np.exp(1.2 - 1.5 * score))).astype(np.float32))


class Impressions(Dataset):
    """Indexed with a list of rows; returns a whole batch."""

    def __init__(self, root, lo, hi):
        self.dense = torch.from_numpy(np.load(root / "dense.npy")[lo:hi])
        self.cats = torch.from_numpy(np.load(root / "cats.npy")[lo:hi])
        self.click = torch.from_numpy(np.load(root / "click.npy")[lo:hi])

    def __len__(self):
        return len(self.click)

    def __getitem__(self, rows):
        rows = torch.as_tensor(rows)
        return torch.log1p(self.dense[rows]), self.cats[rows].long(), self.click[rows]


class BinaryAUROC(nn.Module):
    def __init__(self):
        super().__init__()
        self.reset()

    def reset(self):
        self.preds, self.target = [], []

    def update(self, preds, target):
        self.preds.append(preds.detach())
        self.target.append(target)

    def compute(self):
        preds, target = torch.cat(self.preds), torch.cat(self.target)
        order = torch.argsort(preds, descending=True, stable=True)
        hits = target[order].double()
        tpr = hits.cumsum(0) / hits.sum().clamp(min=1)
        fpr = (1 - hits).cumsum(0) / (1 - hits).sum().clamp(min=1)
        return torch.trapezoid(tpr, fpr).item()

    def forward(self, preds, target):
        self.update(preds, target)
        return self.compute()


class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.logged = {}

    def log(self, name, value):
        self.logged[name] = float(value)

    def on_validation_epoch_start(self):
        pass

    def on_validation_epoch_end(self):
        pass


class ClickModel(Module):
    def __init__(self, hidden=512, emb=16, lr=1e-3):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(c, emb) for c in CARDINALITIES])
        self.mlp = nn.Sequential(nn.Linear(DENSE + emb * len(CARDINALITIES), hidden), nn.ReLU(),
                                 nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        self.lr = lr
        self.loss = nn.BCEWithLogitsLoss()
        self.val_auroc = BinaryAUROC()

    def forward(self, dense, cats):
        emb = [table(cats[:, j]) for j, table in enumerate(self.tables)]
        return self.mlp(torch.cat([dense, *emb], dim=1)).squeeze(1)

    def training_step(self, batch, batch_idx):
        dense, cats, click = batch
        return self.loss(self(dense, cats), click)

    def validation_step(self, batch, batch_idx):
        dense, cats, click = batch
        logits = self(dense, cats)
        self.log("val_loss", self.loss(logits, click))
        self.log("val_auroc", self.val_auroc(torch.sigmoid(logits), click))

    def on_validation_epoch_start(self):
        self.val_auroc.reset()

    def on_validation_epoch_end(self):
        self.log("val_auroc", self.val_auroc.compute())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.lr)


class Trainer:
    def __init__(self, max_epochs, val_check_interval):
        self.max_epochs, self.every = max_epochs, val_check_interval

    @torch.no_grad()
    def validate(self, module, loader):
        module.eval()
        module.on_validation_epoch_start()
        for i, batch in enumerate(loader):
            module.validation_step(batch, i)
        module.on_validation_epoch_end()
        module.train()
        print(f"    val_auroc {module.logged['val_auroc']:.5f}", flush=True)

    def fit(self, module, train_loader, val_loader):
        optimizer = module.configure_optimizers()
        check = max(1, int(len(train_loader) * self.every))
        for epoch in range(self.max_epochs):
            losses = []
            for i, batch in enumerate(train_loader):
                loss = module.training_step(batch, i)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
                if (i + 1) % check == 0:
                    self.validate(module, val_loader)
            print(f"epoch {epoch}: train_loss {np.mean(losses):.5f}", flush=True)


def loader_for(dataset, batch_size, train):
    sampler = RandomSampler(dataset) if train else SequentialSampler(dataset)
    return DataLoader(dataset, batch_size=None, num_workers=1 if train else 0,
                      sampler=BatchSampler(sampler, batch_size, drop_last=train))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=pathlib.Path, default="data/clicks")
    parser.add_argument("--max_epochs", type=int, default=3)
    parser.add_argument("--val_check_interval", type=float, default=0.5)
    hparams = parser.parse_args()
    generate(hparams.data)
    torch.manual_seed(42)
    train_set, val_set = Impressions(hparams.data, 0, 180_000), Impressions(hparams.data, 180_000, 300_000)
    Trainer(hparams.max_epochs, hparams.val_check_interval).fit(
        ClickModel(), loader_for(train_set, 512, True), loader_for(val_set, 256, False))
