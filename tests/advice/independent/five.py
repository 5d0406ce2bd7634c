"""Clip-level video model. The frames are in a NumPy array, the collate function builds a dict."""

import argparse
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

FRAMES, SIDE = 8, 112


class VideoClips(Dataset):
    def __init__(self, n, read_ms):
        self.read_ms = read_ms
        rng = np.random.default_rng(0)
        self.frames = rng.random((48, 3, SIDE, SIDE), dtype=np.float32)
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        time.sleep(self.read_ms / 1000)  # fetch and decode on the video server
        start = i % (len(self.frames) - FRAMES)
        return {"clip": self.frames[start : start + FRAMES], "label": i % 6, "id": f"clip{i:06d}"}


def collate_numpy(samples):
    return {
        "clip": np.stack([s["clip"] for s in samples]),
        "label": np.array([s["label"] for s in samples]),
        "id": [s["id"] for s in samples],
    }


def collate_tensor(samples):
    return {
        "clip": torch.stack([torch.from_numpy(s["clip"]) for s in samples]),
        "label": torch.tensor([s["label"] for s in samples]),
        "id": [s["id"] for s in samples],
    }


class Pooled(nn.Module):
    """Looks at a coarse grid of each frame."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(FRAMES * 3 * 7 * 7, 6)

    def forward(self, clip):
        return self.fc(clip[..., ::16, ::16].flatten(1))


def main(args):
    loader = DataLoader(
        VideoClips(args.clips, args.read_ms),
        batch_size=args.batch_size,
        shuffle=True,
        num_workers=args.num_workers,
        collate_fn=collate_tensor if args.fixed else collate_numpy,
        prefetch_factor=args.prefetch_factor if args.num_workers else None,
        persistent_workers=args.num_workers > 0,
        pin_memory=args.pin_memory,
    )
    model = Pooled()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    begin = time.time()
    for epoch in range(args.epochs):
        t = time.time()
        for batch in loader:
            clip, label = torch.as_tensor(batch["clip"]), torch.as_tensor(batch["label"])
            loss = nn.functional.cross_entropy(model(clip), label)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
        print(f"epoch {epoch}: last loss {loss.item():.3f}, {time.time() - t:.2f} s", flush=True)
    print(f"trained for {time.time() - begin:.2f} s")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--clips", type=int, default=800)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--read-ms", type=float, default=6.0)
    p.add_argument("--num-workers", type=int, default=4)
    p.add_argument("--prefetch-factor", type=int, default=2)
    p.add_argument("--pin-memory", action="store_true")
    p.add_argument("--fixed", action="store_true", help="make tensors in the collate function")
    main(p.parse_args())
