"""Keyword spotting: clips of an archive, of which a few must be recalled from cold storage."""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Clips(Dataset):
    def __init__(self, n, read_ms, recall_s):
        self.n, self.read_ms, self.recall_s = n, read_ms, recall_s

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if i % 400 == 137:  # this clip is not in the warm tier
            time.sleep(self.recall_s)
        else:
            time.sleep(self.read_ms / 1000)
        g = torch.Generator().manual_seed(i)
        return torch.randn(800, generator=g), torch.tensor(i % 12)


def collate(samples):
    waves, labels = zip(*samples)
    return torch.stack(waves).unsqueeze(1), torch.stack(labels)


class Net(nn.Module):
    def __init__(self, classes=12):
        super().__init__()
        self.conv = nn.Conv1d(1, 8, kernel_size=40, stride=20)
        self.head = nn.Linear(8, classes)

    def forward(self, x):
        return self.head(torch.relu(self.conv(x)).mean(-1))


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--epochs", type=int, default=1)
    ap.add_argument("--clips", type=int, default=1600)
    ap.add_argument("-b", "--batch-size", type=int, default=8)
    ap.add_argument("--read-ms", type=float, default=4.0)
    ap.add_argument("--recall-s", type=float, default=2.0)
    ap.add_argument("-j", "--num-workers", type=int, default=4)
    ap.add_argument("--prefetch-factor", type=int, default=2)
    ap.add_argument("--any-order", action="store_true", help="in_order=False")
    ap.add_argument("--no-persistent-workers", action="store_true")
    ap.add_argument("--pin-memory", action="store_true")
    a = ap.parse_args()

    kw = {}
    if a.num_workers:
        kw = dict(
            prefetch_factor=a.prefetch_factor, persistent_workers=not a.no_persistent_workers, in_order=not a.any_order
        )
    torch.manual_seed(7)
    loader = DataLoader(
        Clips(a.clips, a.read_ms, a.recall_s),
        batch_size=a.batch_size,
        shuffle=True,
        collate_fn=collate,
        num_workers=a.num_workers,
        pin_memory=a.pin_memory,
        **kw,
    )
    net = Net()
    optimizer = torch.optim.Adam(net.parameters())
    criterion = nn.CrossEntropyLoss()
    t0 = time.monotonic()
    step = 0
    for epoch in range(a.epochs):
        for waves, labels in loader:
            optimizer.zero_grad()
            loss = criterion(net(waves), labels)
            loss.backward()
            optimizer.step()
            step += 1
            if step % 50 == 0:
                print(
                    f"epoch {epoch} step {step} loss {loss.item():.3f} ({step / (time.monotonic() - t0):.1f} steps/s)",
                    flush=True,
                )
    print(f"trained for {time.monotonic() - t0:.2f} s")


if __name__ == "__main__":
    main()
