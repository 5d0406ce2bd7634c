"""Fraud scoring; small framework with callbacks."""

import json
import os
import tempfile
import time

import torch
from torch.utils.data import DataLoader, TensorDataset


class Callback:
    def on_step_end(self, tr, step, loss): ...
    def on_fit_end(self, tr): ...


class DashboardCallback(Callback):
    """Posts each step's numbers to the team's dashboard."""

    def __init__(self):
        self.spool = open(os.path.join(tempfile.gettempdir(), f"dash_{os.getpid()}.jsonl"), "w")

    def post(self, payload):
        self.spool.write(json.dumps(payload) + "\n")
        self.spool.flush()
        time.sleep(0.035)  # wait for the server's 200

    def on_step_end(self, tr, step, loss):
        self.post({"step": step, "loss": loss, "norm": float(sum(p.norm() for p in tr.model.parameters()))})

    def on_fit_end(self, tr):
        self.spool.close()
        os.unlink(self.spool.name)


class ValidateCallback(Callback):
    def __init__(self, loader, every):
        self.loader, self.every = loader, every

    @torch.no_grad()
    def on_step_end(self, tr, step, loss):
        if (step + 1) % self.every:
            return
        tr.model.eval()
        tr.best = min(tr.best, sum(tr.loss(tr.model(x), y).item() for x, y in self.loader) / len(self.loader))
        tr.model.train()


class Chip(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        time.sleep(0.012)
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        time.sleep(0.016)
        return g


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(40, 64), torch.nn.Linear(64, 1)

    def forward(self, x):
        return Chip.apply(self.b(self.a(x).relu()))


class Trainer:
    def __init__(self, model, train, callbacks):
        self.model, self.train, self.callbacks = model, train, callbacks
        self.opt = torch.optim.Adam(model.parameters())
        self.loss = torch.nn.BCEWithLogitsLoss()
        self.best = float("inf")

    def fit(self, epochs):
        step = 0
        for ep in range(epochs):
            for x, y in self.train:
                self.opt.zero_grad()
                loss = self.loss(self.model(x), y)
                loss.backward()
                self.opt.step()
                for cb in self.callbacks:
                    cb.on_step_end(self, step, loss.item())
                step += 1
            print(f"epoch {ep}: best val {self.best:.4f}", flush=True)
        for cb in self.callbacks:
            cb.on_fit_end(self)


def table(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 40, generator=g)
    return TensorDataset(x, (x[:, :1] > 0).float())


if __name__ == "__main__":
    torch.set_num_threads(1)
    train = DataLoader(table(64 * 150, 0), batch_size=64, shuffle=True, num_workers=1, persistent_workers=True)
    val = DataLoader(table(64 * 16, 1), batch_size=64)
    t = Trainer(Mlp(), train, [DashboardCallback(), ValidateCallback(val, every=15)])
    t.fit(int(os.environ.get("EPOCHS", 2)))
