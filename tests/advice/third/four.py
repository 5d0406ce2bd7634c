"""Day-ahead forecast of household electricity use. One archive file holds all meters."""

import argparse
import multiprocessing
import os
import time

import numpy as np
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset

HISTORY, AHEAD = 96, 24


class MeterArchive:
    """Reader of the archive. Its handle may be used by one process at a time."""

    READ = 0.006

    def __init__(self, guard=None):
        self.guard = guard
        self.pid = os.getpid()

    def _read(self, meter, day):
        time.sleep(self.READ)
        hours = np.arange(HISTORY + AHEAD) + 24 * day
        load = 1 + 0.5 * np.sin(hours * np.pi / 12 + meter) + 0.1 * np.sin(hours * np.pi / 84)
        return load.astype(np.float32)

    def window(self, meter, day):
        if self.guard is None:
            return self._read(meter, day)
        with self.guard:
            return self._read(meter, day)


class Windows(Dataset):
    def __init__(self, meters, days, handle_per_process):
        self.meters, self.days = meters, days
        self.handle_per_process = handle_per_process
        self.archive = MeterArchive(multiprocessing.Lock())

    def reader(self):
        if self.handle_per_process and self.archive.pid != os.getpid():
            self.archive = MeterArchive()
        return self.archive

    def __len__(self):
        return self.meters * self.days

    def __getitem__(self, index):
        meter, day = divmod(index, self.days)
        series = self.reader().window(meter, day)
        return torch.from_numpy(series[:HISTORY]), torch.from_numpy(series[HISTORY:])


class Forecaster(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.rnn = nn.GRU(1, hidden, batch_first=True)
        self.out = nn.Linear(hidden, AHEAD)

    def forward(self, x):
        daily = x.view(len(x), -1, 4).mean(-1, keepdim=True)
        return self.out(self.rnn(daily)[0][:, -1])


def run(opts):
    data = Windows(opts.meters, opts.days, opts.handle_per_process)
    more = {}
    if opts.num_workers:
        more = dict(prefetch_factor=opts.prefetch_factor, persistent_workers=True)
    loader = DataLoader(data, opts.batch_size, shuffle=True, num_workers=opts.num_workers, drop_last=True, **more)
    net = Forecaster(opts.hidden)
    optimiser = optim.Adam(net.parameters(), lr=3e-3)
    criterion = nn.L1Loss()

    t = time.monotonic()
    for epoch in range(1, opts.epochs + 1):
        running = []
        for past, future in loader:
            optimiser.zero_grad()
            loss = criterion(net(past), future)
            loss.backward()
            optimiser.step()
            time.sleep(0.036)  # kernel time of the full-size model
            running.append(loss.item())
        print(f"[{epoch}/{opts.epochs}] L1 {np.mean(running):.4f}", flush=True)
    return time.monotonic() - t


if __name__ == "__main__":
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--batch-size", type=int, default=16)
    ap.add_argument("--num-workers", type=int, default=4)
    ap.add_argument("--prefetch-factor", type=int, default=2)
    ap.add_argument("--hidden", type=int, default=12)
    ap.add_argument("--meters", type=int, default=20)
    ap.add_argument("--days", type=int, default=30)
    ap.add_argument("--handle-per-process", action="store_true", help="each loader process opens the archive")
    print(f"trained for {run(ap.parse_args()):.2f} s")
