"""Multi-label arrhythmia tagging on ambulatory ECG strips."""
import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

DATA_DIR = Path(__file__).parent / "data" / "holter"
TAGS = ["sinus", "afib", "pvc", "pac", "lbbb", "rbbb", "st_dep", "pause"]
LEADS, LENGTH = 2, 400


class ECGStrips(Dataset):
    def __init__(self, folder, split):
        self.signal = np.load(folder / f"{split}_signal.npy", mmap_mode="r")
        self.tags = np.load(folder / f"{split}_tags.npy")

    def __len__(self):
        return len(self.tags)

    def __getitem__(self, i):
        x = self.signal[i].astype(np.float32)
        x = (x - x.mean(axis=1, keepdims=True)) / (x.std(axis=1, keepdims=True) + 1e-3)
        return torch.from_numpy(x), torch.from_numpy(self.tags[i].astype(np.float32))


class ECGDataModule:
    def __init__(self, folder, batch_size, num_workers):
        self.folder, self.batch_size, self.num_workers = folder, batch_size, num_workers

    def prepare_data(self):
        if (self.folder / "val_tags.npy").exists():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng(99)
        t = np.arange(LENGTH, dtype=np.float32)
        shapes = rng.normal(0, 1, (len(TAGS), LEADS, 3)).astype(np.float32)
        for split, n in (("train", 7200), ("val", 640)):
            tags = (rng.random((n, len(TAGS))) < 0.22).astype(np.uint8)
            signal = np.zeros((n, LEADS, LENGTH), dtype=np.int16)
            for i in range(n):
                x = rng.standard_normal((LEADS, LENGTH), dtype=np.float32) * 60
                for beat in range(int(rng.integers(0, 60)), LENGTH, 70):
                    x += 400 * np.exp(-((t - beat) / 3) ** 2)
                for k in np.flatnonzero(tags[i]):
                    a = shapes[k]
                    x += 90 * a[:, :1] * np.sin(t * (0.05 + 0.03 * k) + a[:, 1:2]) + 40 * a[:, 2:]
                signal[i] = np.clip(x, -2000, 2000)
            np.save(self.folder / f"{split}_signal.npy", signal)
            np.save(self.folder / f"{split}_tags.npy", tags)

    def train_dataloader(self):
        return DataLoader(ECGStrips(self.folder, "train"), self.batch_size, shuffle=True, drop_last=True,
                          num_workers=self.num_workers, persistent_workers=self.num_workers > 0)

    def val_dataloader(self):
        return DataLoader(ECGStrips(self.folder, "val"), 4 * self.batch_size)


class BestThresholdF1:
    """Macro F1 at each tag's best operating point."""

    def __init__(self, steps=99):
        self.thresholds = torch.linspace(0.01, 0.99, steps)
        self.reset()

    def reset(self):
        self.probs, self.tags = [], []

    def update(self, probs, tags):
        self.probs.append(probs.detach())
        self.tags.append(tags.bool())

    def compute(self):
        probs, tags = torch.cat(self.probs), torch.cat(self.tags)
        called = probs.unsqueeze(-1) >= self.thresholds
        tp = (called & tags.unsqueeze(-1)).sum(0).float()
        f1 = 2 * tp / (called.sum(0) + tags.sum(0).unsqueeze(-1)).clamp(min=1)
        return f1.max(dim=-1).values.mean().item()


class ResBlock(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.a = nn.Sequential(nn.Conv1d(cin, cout, 9, stride, 4), nn.BatchNorm1d(cout), nn.ReLU())
        self.b = nn.Sequential(nn.Conv1d(cout, cout, 9, 1, 4), nn.BatchNorm1d(cout))
        self.skip = nn.Conv1d(cin, cout, 1, stride)

    def forward(self, x):
        return torch.relu(self.b(self.a(x)) + self.skip(x))


class ArrhythmiaModule(nn.Module):
    def __init__(self, lr=2e-3, width=12):
        super().__init__()
        self.lr = lr
        self.net = nn.Sequential(
            ResBlock(LEADS, width, 2), ResBlock(width, 2 * width, 2), ResBlock(2 * width, 2 * width, 2),
            nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(2 * width, len(TAGS)),
        )
        self.loss_fn = nn.BCEWithLogitsLoss()
        self.train_f1 = BestThresholdF1()
        self.val_f1 = BestThresholdF1()
        self.logged = defaultdict(list)

    def log(self, name, value):
        self.logged[name].append(float(value))

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        logits = self(x)
        loss = self.loss_fn(logits, y)
        self.train_f1.update(logits.sigmoid(), y)
        self.log("train_loss", loss.detach())
        self.log("train_f1", self.train_f1.compute())
        return loss

    def on_train_epoch_end(self):
        self.train_f1.reset()

    def validation_step(self, batch, batch_idx):
        x, y = batch
        logits = self(x)
        self.val_f1.update(logits.sigmoid(), y)
        self.log("val_loss", self.loss_fn(logits, y))

    def on_validation_epoch_end(self):
        self.log("val_f1", self.val_f1.compute())
        self.val_f1.reset()

    def configure_optimizers(self, total_steps):
        opt = torch.optim.AdamW(self.parameters(), lr=self.lr, weight_decay=1e-2)
        return opt, torch.optim.lr_scheduler.OneCycleLR(opt, self.lr, total_steps=total_steps)


class Runner:
    def __init__(self, max_epochs, gradient_clip_val=None):
        self.max_epochs = max_epochs
        self.gradient_clip_val = gradient_clip_val

    def fit(self, module, datamodule):
        datamodule.prepare_data()
        train, val = datamodule.train_dataloader(), datamodule.val_dataloader()
        opt, sched = module.configure_optimizers(self.max_epochs * len(train))
        for epoch in range(self.max_epochs):
            module.logged.clear()
            module.train()
            for i, batch in enumerate(train):
                loss = module.training_step(batch, i)
                opt.zero_grad()
                loss.backward()
                if self.gradient_clip_val:
                    nn.utils.clip_grad_norm_(module.parameters(), self.gradient_clip_val)
                opt.step()
                sched.step()
            module.on_train_epoch_end()
            module.eval()
            with torch.no_grad():
                for i, batch in enumerate(val):
                    module.validation_step(batch, i)
            module.on_validation_epoch_end()
            self.report(epoch, module.logged)

    @staticmethod
    def report(epoch, logged):
        shown = {k: (v[-1] if k.endswith("f1") else sum(v) / len(v)) for k, v in logged.items()}
        print(f"epoch {epoch}: " + "  ".join(f"{k}={shown[k]:.5f}" for k in sorted(shown)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--num-workers", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(17)
    data = ECGDataModule(DATA_DIR, args.batch_size, args.num_workers)
    Runner(max_epochs=args.epochs, gradient_clip_val=1.0).fit(ArrhythmiaModule(), data)


if __name__ == "__main__":
    main()
