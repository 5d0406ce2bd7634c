"""Class-based trainer with checkpoints on a shared file system."""

import argparse
import os
import tempfile
import time
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class Config:
    epochs: int = 1
    items: int = 480
    batch_size: int = 8
    lr: float = 1e-3
    num_workers: int = 0
    prefetch_factor: int = 2
    persistent_workers: int = 1
    save_every: int = 5


class Patches(Dataset):
    def __init__(self, items):
        self.items = items

    def __len__(self):
        return self.items

    def __getitem__(self, i):
        time.sleep(0.005)  # read the patch from the file server
        return {"input": torch.full((256,), i / self.items), "target": torch.tensor([i / self.items])}


class Trainer:
    def __init__(self, cfg, workdir):
        self.cfg = cfg
        self.path = os.path.join(workdir, "last.pt")
        self.model = nn.Sequential(nn.Linear(256, 128), nn.GELU(), nn.Linear(128, 1))
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr)
        more = {}
        if cfg.num_workers:
            more = dict(prefetch_factor=cfg.prefetch_factor, persistent_workers=bool(cfg.persistent_workers))
        self.loader = DataLoader(Patches(cfg.items), cfg.batch_size, shuffle=True, num_workers=cfg.num_workers, **more)
        self.step = 0

    def save(self):
        state = {"model": self.model.state_dict(), "opt": self.opt.state_dict(), "step": self.step}
        torch.save(state, self.path + ".tmp")
        time.sleep(0.5)  # the shared file system takes its time
        os.replace(self.path + ".tmp", self.path)

    def train_step(self, batch):
        loss = nn.functional.mse_loss(self.model(batch["input"]), batch["target"])
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        time.sleep(0.004)  # the accelerator's share of the step
        return loss

    def fit(self):
        begin = time.time()
        for epoch in range(self.cfg.epochs):
            for batch in self.loader:
                loss = self.train_step(batch)
                self.step += 1
                if self.step % self.cfg.save_every == 0:
                    self.save()
            print(f"epoch {epoch} step {self.step} loss {loss.item():.5f}", flush=True)
        print(f"trained for {time.time() - begin:.2f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name, field in Config.__dataclass_fields__.items():
        parser.add_argument("--" + name.replace("_", "-"), type=field.type, default=field.default)
    with tempfile.TemporaryDirectory() as workdir:
        Trainer(Config(**vars(parser.parse_args())), workdir).fit()
