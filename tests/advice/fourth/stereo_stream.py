# depth from a stereo rig: two recorders, each a stream of blocks
import os
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

EPOCHS = int(os.environ.get("EPOCHS", 2))
BLOCKS, PER_BLOCK, BATCH = 5, 24, 8
CAMERAS = ("left", "right")


class Recorder:
    """One camera's recording. Blocks come from the archive one by one."""

    def __init__(self, name):
        self.g = torch.Generator().manual_seed(len(name))

    def blocks(self):
        for b in range(BLOCKS):
            time.sleep(1.25)  # archive hands over the next block
            yield torch.randint(0, 255, (PER_BLOCK * BATCH, 3, 32, 32), dtype=torch.uint8, generator=self.g)


class StereoStream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        wid, n = (info.id, info.num_workers) if info else (0, 1)
        for cam in CAMERAS[wid::n]:
            for block in Recorder(cam).blocks():
                for frame in block:
                    yield frame, frame.float().mean() / 255


class DeviceLag(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        time.sleep(0.015)
        return x * 1.0

    @staticmethod
    def backward(ctx, grad):
        time.sleep(0.025)
        return grad


class DepthNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(3, 4, 3, stride=4)
        self.o = nn.Linear(4, 1)

    def forward(self, x):
        h = self.c(x.float().div(255)).relu().mean((2, 3))
        return DeviceLag.apply(self.o(h)).squeeze(1)


loader_kw = dict(batch_size=BATCH, num_workers=2, persistent_workers=True)


def main():
    torch.set_num_threads(1)
    model = DepthNet()
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loader = DataLoader(StereoStream(), **loader_kw)
    for ep in range(EPOCHS):
        n = 0
        for frames, target in loader:
            loss = nn.functional.smooth_l1_loss(model(frames), target)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            n += 1
        print("pass", ep, "batches", n, "loss", float(loss), flush=True)


if __name__ == "__main__":
    main()
